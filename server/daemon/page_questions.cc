// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/page_questions.h"

#include "server/daemon/fill_stats.h"

namespace tensord::server {

PageSource AskServices(CompileService* service, FrameService* frames) {
  PageSource source;
  source.stats = [=](v1::Stats* stats) { FillStats(*service, *frames, stats); };
  source.programs = [=](const v1::ListProgramsRequest& request, v1::ListProgramsReply* reply) {
    return service->ListPrograms(request, reply);
  };
  source.program = [=](const v1::GetProgramRequest& request, v1::ProgramDetail* reply) {
    return service->GetProgram(request, reply);
  };
  source.frames = [=](const v1::ListFramesRequest& request, v1::ListFramesReply* reply) {
    return frames->List(request, reply);
  };
  source.frame = [=](const v1::GetFrameRequest& request, v1::StoredFrame* reply) {
    return frames->Get(request, reply);
  };
  source.misses = [=](const v1::ListMissesRequest& request, v1::ListMissesReply* reply) {
    frames->ListMisses(request, reply);
    service->ListMisses(request, reply);
    return absl::OkStatus();
  };
  source.jobs = [=](const v1::ListJobsRequest&, v1::ListJobsReply* reply) {
    service->processes()->List(reply);
    return absl::OkStatus();
  };
  source.job = [=](const v1::GetJobRequest& request, v1::JobDetail* reply) {
    return service->processes()->Get(request, reply);
  };
  source.profiles = [=](const v1::GetProfilesRequest& request, v1::Profiles* reply) {
    return service->GetProfiles(request, reply);
  };
  return source;
}

}  // namespace tensord::server
