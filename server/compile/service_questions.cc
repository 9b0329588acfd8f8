// SPDX-License-Identifier: Apache-2.0
// What CompileService says of itself, of what is stored and of what was asked for.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/sha256.h"
#include "server/compile/compile_service.h"
#include "server/profiles/check_profile.h"
#include "server/statistics/metrics.h"
#include "tensord/v1/stats.pb.h"

namespace tensord::server {
namespace {

absl::Status CheckPrefix(const std::string& prefix) {
  constexpr size_t kMinPrefix = 4;
  if (prefix.size() >= kMinPrefix) return absl::OkStatus();
  return absl::InvalidArgumentError("a key's prefix has at least 4 bytes (8 hex digits)");
}

void FillSummary(const store::ProgramRow& row, v1::ProgramSummary* summary) {
  summary->set_key(row.key);
  summary->set_label(row.facts.label);
  summary->set_target(row.facts.target);
  summary->set_nodes(row.facts.nodes);
  summary->set_kernels(row.facts.kernels);
  summary->set_externs(row.facts.externs);
  summary->set_bytes(row.bytes);
  summary->set_hits(row.hits);
  summary->set_created_unix(row.created_ms / 1000);
  summary->set_used_unix(row.used_ms / 1000);
  summary->set_compile_nanoseconds(row.facts.compile_nanoseconds);
}

}  // namespace

void CompileService::FillStats(v1::Stats* stats) {
  metrics_->Fill(stats);
  stats->set_workers(static_cast<uint64_t>(pool_.Running()));
  stats->set_queued(flights_.waiting());
  stats->set_request_bytes(memory_.held());
  stats->set_blobs_corrupt(store_->counters().corrupt);
  stats->set_programs_evicted(store_->counters().evicted);
  stats->set_store(store_->root());
  if (fleet_ != nullptr) fleet_->FillStats(stats);
  std::string problem = store_problem_;
  if (const std::string full = store_->problem(); problem.empty() && !full.empty()) {
    problem = "what is compiled is kept in memory: " + full;
  }
  stats->set_store_problem(problem);
  stats->set_store_limit_bytes(store_->limit_bytes());
  if (const auto totals = store_->Count(); totals.ok()) {
    stats->set_programs_stored(totals->programs);
    stats->set_frames_stored(totals->frames);
    stats->set_frame_bytes_stored(totals->frame_bytes);
    stats->set_bytes_stored(totals->bytes);
  }
}

absl::Status CompileService::ListPrograms(const v1::ListProgramsRequest& request,
                                          v1::ListProgramsReply* reply) {
  store::ProgramQuery query{request.limit(), request.skip(), request.search()};
  if (!v1::ListProgramsRequest::Order_IsValid(request.order())) {
    return absl::InvalidArgumentError("there is no such order of programs");
  }
  static_assert(v1::ListProgramsRequest::CREATED == int{store::ProgramQuery::kCreated});
  query.order = static_cast<store::ProgramQuery::Order>(request.order());
  TENSORD_ASSIGN_OR_RETURN(const store::ProgramPage page, store_->Search(query));
  for (const store::ProgramRow& row : page.rows) FillSummary(row, reply->add_programs());
  reply->set_matching(page.matching);
  return absl::OkStatus();
}

absl::Status CompileService::GetProgram(const v1::GetProgramRequest& request,
                                        v1::ProgramDetail* reply) {
  TENSORD_RETURN_IF_ERROR(CheckPrefix(request.key_prefix()));
  TENSORD_ASSIGN_OR_RETURN(const store::ProgramRow row, store_->Find(request.key_prefix()));
  TENSORD_ASSIGN_OR_RETURN(const std::string detail, store_->Detail(row.key));
  TENSORD_ASSIGN_OR_RETURN(const auto manifest, store_->Peek(row.key));
  if (!reply->ParseFromString(detail) ||
      !reply->mutable_artifact()->ParseFromString(manifest->payload)) {
    return absl::DataLossError("the stored program cannot be read");
  }
  FillSummary(row, reply->mutable_summary());
  if (!request.with_sources()) return absl::OkStatus();
  for (v1::KernelSource& source : *reply->mutable_sources()) {
    source.set_source(store_->KernelSource(source.kernel_key()).value_or(""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CompileService::ReadBlob(const std::string& sha256) {
  if (sha256.size() != kSha256Bytes) {
    return absl::InvalidArgumentError("a digest has 32 bytes");
  }
  return store_->ReadBlob(sha256);
}

absl::StatusOr<uint32_t> CompileService::PutSpans(const v1::PutSpansRequest& request) {
  return traces_.Put(request);
}

absl::Status CompileService::GetTraces(const v1::GetTracesRequest& request, v1::Traces* reply) {
  if (!request.key_prefix().empty()) TENSORD_RETURN_IF_ERROR(CheckPrefix(request.key_prefix()));
  TENSORD_RETURN_IF_ERROR(traces_.Get(request, reply));
  if (reply->requests_size() > 0) return absl::OkStatus();
  if (request.key_prefix().empty() || !request.job().empty()) {
    return absl::NotFoundError("nobody has asked for such a program since the daemon's start");
  }
  v1::GetProgramRequest program;
  program.set_key_prefix(request.key_prefix());
  v1::ProgramDetail detail;
  TENSORD_RETURN_IF_ERROR(GetProgram(program, &detail));
  if (detail.spans().empty()) {
    return absl::NotFoundError(
        "nobody has asked for the program since the daemon's start, and the daemon that compiled "
        "it kept no times");
  }
  v1::RequestTrace& stored = *reply->add_requests();
  stored.set_program_key(detail.summary().key());
  stored.set_label(detail.summary().label());
  stored.set_outcome("compiled");
  stored.mutable_spans()->Swap(detail.mutable_spans());
  return absl::OkStatus();
}

// Whether a program of the profile is stored, whichever daemon compiled it.
bool CompileService::HasProgramOf(const v1::Profile& profile) {
  const auto& programs = profile.programs();
  const int most = std::min(programs.size(), kMostProfiledPrograms);
  return std::any_of(
      programs.begin(), programs.begin() + most, [&](const v1::ProfiledProgram& program) {
        return program.key().size() == kSha256Bytes && store_->Peek(program.key()).ok();
      });
}

absl::StatusOr<uint64_t> CompileService::PutProfile(v1::PutProfileRequest request) {
  if (!processes_.Knows(request.caller()) && !HasProgramOf(request.profile())) {
    return absl::FailedPreconditionError(
        absl::StrCat("process ", request.caller().pid(), " has asked this daemon for nothing"));
  }
  return profiles_.Put(std::move(request));
}

absl::Status CompileService::GetProfiles(const v1::GetProfilesRequest& request,
                                         v1::Profiles* reply) {
  if (!request.key_prefix().empty()) TENSORD_RETURN_IF_ERROR(CheckPrefix(request.key_prefix()));
  return profiles_.Get(request, reply);
}

}  // namespace tensord::server
