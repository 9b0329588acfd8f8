// SPDX-License-Identifier: Apache-2.0
// What the page asks the daemon: the functions that answer the RPCs of these names.
#ifndef TENSORD_SERVER_UI_PAGE_SOURCE_H_
#define TENSORD_SERVER_UI_PAGE_SOURCE_H_

#include <functional>

#include "base/status.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::server {

template <class Request, class Reply>
using Question = std::function<absl::Status(const Request&, Reply*)>;

// Each is called by several threads.
struct PageSource {
  std::function<void(v1::Stats*)> stats;
  Question<v1::ListProgramsRequest, v1::ListProgramsReply> programs;
  Question<v1::GetProgramRequest, v1::ProgramDetail> program;
  Question<v1::ListFramesRequest, v1::ListFramesReply> frames;
  Question<v1::GetFrameRequest, v1::StoredFrame> frame;
  Question<v1::ListMissesRequest, v1::ListMissesReply> misses;
  Question<v1::ListJobsRequest, v1::ListJobsReply> jobs;
  Question<v1::GetJobRequest, v1::JobDetail> job;
  Question<v1::GetProfilesRequest, v1::Profiles> profiles;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_UI_PAGE_SOURCE_H_
