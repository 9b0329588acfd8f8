// SPDX-License-Identifier: Apache-2.0
// What CompileService does with a miss, once it is a compile's turn.
#include <absl/time/clock.h>
#include <google/protobuf/arena.h>

#include <utility>

#include "server/compile/compile_service.h"
#include "server/compile/explain_miss.h"
#include "server/program/keys.h"
#include "server/statistics/metrics.h"

namespace tensord::server {

absl::StatusOr<const char*> CompileService::NoteMiss(Flights::Turn& turn) {
  FlowInput& input = turn.task.input;
  const auto step = board_.steps().Begin(turn.key, kUsualDiskStep);
  const auto explaining = input.spans->Time("explain miss");
  DescribedKey wanted;
  {
    // As in Read: of parsed large requests there is one at a time.
    absl::MutexLockMaybe lock(input.job.size() > RequestMemory::kSmall ? &large_ : nullptr);
    google::protobuf::Arena arena;
    auto& job = *google::protobuf::Arena::CreateMessage<v1::CompileJob>(&arena);
    if (!job.ParseFromString(input.job)) return absl::InternalError("the job is no message");
    wanted = DescribeKey(job.graph(), job.target(), job.options(),
                         MakeProgramKey(job.graph(), job.target(), job.options(), input.toolchain,
                                        input.compiler_build));
  }
  ExplainedMiss explained = ExplainMiss(*store_, turn.key, wanted);
  explained.miss.set_label(input.label);
  explained.miss.set_nodes(static_cast<uint32_t>(input.nodes));
  *explained.miss.mutable_caller() = turn.task.caller;
  explained.miss.set_last_unix(absl::ToUnixSeconds(absl::Now()));
  misses_.Add(std::move(explained.miss));
  ++metrics_->misses[static_cast<size_t>(explained.reason)];
  input.traits = wanted.parts.ToTraits();
  input.key_detail = std::move(wanted.detail);
  return NameOf(explained.reason);
}

}  // namespace tensord::server
