// SPDX-License-Identifier: Apache-2.0
// Runs the passes of a pipeline: around each stand its time, its verifier and its observer.
#include <absl/strings/str_cat.h>

#include <chrono>

#include "compiler/pipeline.h"

namespace tensord::compiler {
namespace {

using Clock = std::chrono::steady_clock;

class Runner {
 public:
  Runner(const std::vector<Pass>& passes, CompileState& state, const PassObserver& observer)
      : passes_(passes), state_(state), observer_(observer) {}

  absl::Status Run() {
    for (const Pass& pass : passes_) TENSORD_RETURN_IF_ERROR(Run(pass, pass.verify));
    AddTime("verify", verifying_);
    return absl::OkStatus();
  }

 private:
  absl::Status Run(const Pass& pass, absl::Status (*verify)(const CompileState& state)) {
    const Clock::time_point start = Clock::now();
    const Clock::duration verified_before = verifying_;
    if (pass.run) {
      const absl::Status status = pass.run(state_);
      if (pass.may_refuse && absl::IsInvalidArgument(status)) return status;
      TENSORD_RETURN_IF_ERROR(Failure(pass, status));
    }
    bool verified = false;
    for (const Pass& part : pass.parts) {
      if (part.applies && !part.applies(state_)) continue;
      TENSORD_RETURN_IF_ERROR(Run(part, verify));
      verified = true;
    }
    const Clock::time_point end = Clock::now();
    AddTime(pass.name, end - start - (verifying_ - verified_before));
    AddSpan(pass.name, start, end);
    if (verify != nullptr && !verified) {
      const Clock::time_point begin = Clock::now();
      const absl::Status status = verify(state_);
      const Clock::time_point verified_at = Clock::now();
      verifying_ += verified_at - begin;
      AddSpan("verify", begin, verified_at, pass.name);
      TENSORD_RETURN_IF_ERROR(Failure(pass, status, "broke what it promises: "));
    }
    if (observer_) observer_(pass, state_);
    return absl::OkStatus();
  }

  // Only the first pass and its verifier look at what somebody else made.
  absl::Status Failure(const Pass& pass, const absl::Status& status, const char* how = "") const {
    if (status.ok() || &pass == &passes_.front()) return status;
    return absl::InternalError(absl::StrCat(pass.name, ": ", how, status.message()));
  }

  void AddTime(const std::string& name, Clock::duration time) {
    v1::StageTime* stage = state_.result.add_stages();
    stage->set_stage(name);
    stage->set_nanoseconds(std::chrono::nanoseconds(time).count());
  }

  void AddSpan(const std::string& name, Clock::time_point start, Clock::time_point end,
               const std::string& detail = "") {
    v1::Span* span = state_.result.add_spans();
    span->set_name(name);
    span->set_detail(detail);
    span->set_start_nanoseconds(std::chrono::nanoseconds(start.time_since_epoch()).count());
    span->set_nanoseconds(std::chrono::nanoseconds(end - start).count());
  }

  const std::vector<Pass>& passes_;
  CompileState& state_;
  const PassObserver& observer_;
  Clock::duration verifying_{};
};

}  // namespace

absl::Status RunPasses(const std::vector<Pass>& passes, CompileState& state,
                       const PassObserver& observer) {
  return Runner(passes, state, observer).Run();
}

absl::Status RunPipeline(CompileState& state, const PassObserver& observer) {
  return RunPasses(Pipeline(), state, observer);
}

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const Pass& pass : Pipeline()) {
    for (const Pass& part : pass.parts) names.push_back(part.name);
    names.push_back(pass.name);
  }
  return names;
}

}  // namespace tensord::compiler
