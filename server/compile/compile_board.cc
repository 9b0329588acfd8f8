// SPDX-License-Identifier: Apache-2.0
#include "server/compile/compile_board.h"

#include <algorithm>

namespace tensord::server {
namespace {

constexpr int kMostCallers = 16;

// Where a stage begins. Most of a compile is the JIT's, whose kernels can be counted.
constexpr double kCompilingFrom = 0.02, kKernelsFrom = 0.15, kPublishingFrom = 0.97;

double ShareOf(v1::CompileProgress::Stage stage, uint32_t ready, uint32_t kernels) {
  switch (stage) {
    case v1::CompileProgress::COMPILING:
      return kCompilingFrom;
    case v1::CompileProgress::KERNELS:
      return kKernelsFrom + (kPublishingFrom - kKernelsFrom) * ready / std::max(kernels, 1U);
    case v1::CompileProgress::PUBLISHING:
      return kPublishingFrom;
    default:
      return 0;
  }
}

}  // namespace

void CompileBoard::Join(const std::string& key, uint64_t id, const v1::Caller& caller,
                        const std::string& label, int nodes, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  const auto [found, is_new] = compiles_.try_emplace(key);
  Compile& compile = found->second;
  if (is_new) {
    compile.label = label;
    compile.nodes = nodes;
    compile.since = now;
  }
  compile.waiting[id] = caller;
}

void CompileBoard::Leave(const std::string& key, uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const auto found = compiles_.find(key);
  if (found == compiles_.end()) return;
  found->second.waiting.erase(id);
  if (found->second.waiting.empty()) compiles_.erase(found);
}

void CompileBoard::SetStage(const std::string& key, v1::CompileProgress::Stage stage) {
  absl::MutexLock lock(&mutex_);
  const auto found = compiles_.find(key);
  if (found == compiles_.end()) return;
  found->second.stage = stage;
  if (stage == v1::CompileProgress::COMPILING) {
    found->second.kernels = found->second.kernels_ready = 0;
  }
}

void CompileBoard::SetKernels(const std::string& key, uint32_t ready, uint32_t kernels) {
  absl::MutexLock lock(&mutex_);
  const auto found = compiles_.find(key);
  if (found == compiles_.end()) return;
  found->second.stage = v1::CompileProgress::KERNELS;
  found->second.kernels = kernels;
  found->second.kernels_ready = std::min(ready, kernels);
}

std::optional<absl::Duration> CompileBoard::SilenceOf(const std::string& key,
                                                      const Compile& compile,
                                                      absl::Time now) const {
  const OwnSteps::State state = steps_.Of(key, now);
  if (state.overdue.has_value()) return state.overdue;
  if (state.waits || compile.stage == v1::CompileProgress::WAITING) return std::nullopt;
  return absl::ZeroDuration();  // a worker's turn
}

v1::CompilesUpdate CompileBoard::Read(const v1::WatchCompilesRequest& request,
                                      absl::Time now) const {
  const auto is_asked_for = [&](const Compile& compile) {
    return !request.has_caller() ||
           std::any_of(compile.waiting.begin(), compile.waiting.end(), [&](const auto& waiting) {
             return waiting.second.pid() == request.caller().pid() &&
                    waiting.second.host() == request.caller().host();
           });
  };
  v1::CompilesUpdate update;
  absl::Duration silence, of_those_up = absl::InfiniteDuration();
  bool waits = false;  // for a turn, or for others' kernels
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [key, compile] : compiles_) {
      const auto silent = SilenceOf(key, compile, now);
      if (silent.has_value()) of_those_up = std::min(of_those_up, *silent);
      if (!is_asked_for(compile)) continue;
      silence = std::max(silence, silent.value_or(absl::ZeroDuration()));
      waits = waits || !silent.has_value();
      v1::CompileProgress& progress = *update.add_compiles();
      progress.set_program_key(key);
      progress.set_label(compile.label);
      progress.set_nodes(static_cast<uint32_t>(compile.nodes));
      progress.set_stage(compile.stage);
      progress.set_kernels(compile.kernels);
      progress.set_kernels_ready(compile.kernels_ready);
      progress.set_share(ShareOf(compile.stage, compile.kernels_ready, compile.kernels));
      progress.set_elapsed_nanoseconds(static_cast<uint64_t>(
          std::max<int64_t>(0, absl::ToInt64Nanoseconds(now - compile.since))));
      for (const auto& [id, caller] : compile.waiting) {
        if (progress.callers_size() == kMostCallers) break;
        *progress.add_callers() = caller;
      }
    }
  }
  // Who waits for others waits for nobody when all of them hang.
  if (waits && of_those_up < absl::InfiniteDuration()) silence = std::max(silence, of_those_up);
  if (request.has_caller()) {
    const OwnSteps::State look_ups = steps_.Of(ProcessOf(request.caller()), now);
    silence = std::max(silence, look_ups.overdue.value_or(absl::ZeroDuration()));
  }
  update.set_silent_nanoseconds(static_cast<uint64_t>(absl::ToInt64Nanoseconds(silence)));
  auto& compiles = *update.mutable_compiles();
  std::sort(compiles.begin(), compiles.end(), [](const auto& a, const auto& b) {
    return a.elapsed_nanoseconds() > b.elapsed_nanoseconds();
  });
  return update;
}

}  // namespace tensord::server
