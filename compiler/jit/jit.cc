// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/jit.h"

#include <absl/strings/str_cat.h>
#include <absl/synchronization/mutex.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>

#include "compiler/jit/backend.h"
#include "compiler/jit/cxx/backend.h"
#include "compiler/jit/folder.h"
#include "compiler/jit/nvrtc/backend.h"

namespace tensord::jit {
namespace {

using Clock = std::chrono::steady_clock;

const BackendEntry* const kBackends[] = {&kCxxBackend, &kNvrtcBackend};

absl::StatusOr<const BackendEntry*> BackendOf(const v1::Target& target) {
  for (const BackendEntry* entry : kBackends)
    if (entry->target == target.kind_case()) return entry;
  return absl::UnimplementedError("target: this build has no compiler for it");
}

v1::Span MakeSpan(const char* name, Clock::time_point start, Clock::time_point end) {
  v1::Span span;
  span.set_name(name);
  span.set_start_nanoseconds(std::chrono::nanoseconds(start.time_since_epoch()).count());
  span.set_nanoseconds(std::chrono::nanoseconds(end - start).count());
  return span;
}

void AddStage(v1::JitResult& result, const char* name, Clock::time_point start) {
  const v1::Span span = MakeSpan(name, start, Clock::now());
  v1::StageTime* stage = result.add_stages();
  stage->set_stage(name);
  stage->set_nanoseconds(span.nanoseconds());
  *result.add_spans() = span;
}

// A thread compiles one unit after the other; `spans` has each of them.
std::vector<absl::StatusOr<CompiledUnit>> CompileUnits(
    const v1::JitJob& job, const Backend& backend, int parallelism, const OnUnit& on_unit,
    google::protobuf::RepeatedPtrField<v1::Span>& spans) {
  std::vector<absl::StatusOr<CompiledUnit>> units(job.units_size(), absl::UnknownError(""));
  absl::Mutex mutex;
  uint32_t done = 0;
  const auto compile = [&](int i) {
    const auto start = Clock::now();
    units[i] = backend.Compile(job.units(i));
    v1::Span span = MakeSpan("jit/kernel", start, Clock::now());
    span.set_detail(job.units(i).description());
    span.set_track(absl::StrCat("kernels ", tbb::this_task_arena::current_thread_index()));
    absl::MutexLock lock(&mutex);
    *spans.Add() = std::move(span);
    ++done;
    if (on_unit != nullptr) on_unit(done);
  };
  tbb::task_arena arena(std::clamp(parallelism, 1, std::max(1, tbb::info::default_concurrency())));
  arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<int>(0, job.units_size(), 1),
        [&](const tbb::blocked_range<int>& range) {
          for (int i = range.begin(); i < range.end(); ++i) compile(i);
        },
        tbb::simple_partitioner());
  });
  return units;
}

absl::StatusOr<v1::JitResult> JitHere(const v1::JitJob& job, const JitConfig& config,
                                      const OnUnit& on_unit) {
  const auto start = Clock::now();
  TENSORD_ASSIGN_OR_RETURN(const BackendEntry* entry, BackendOf(job.target()));
  TENSORD_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                           entry->open(job.target(), config));
  v1::JitResult result;
  AddStage(result, "jit/prelude", start);

  const auto compile_start = Clock::now();
  result.set_kind(backend->kind());
  for (absl::StatusOr<CompiledUnit>& unit :
       CompileUnits(job, *backend, config.parallelism, on_unit, *result.mutable_spans())) {
    TENSORD_RETURN_IF_ERROR(unit.status());
    if (!unit->failure.empty()) {
      v1::UnitFailure* failure = result.add_failures();
      failure->set_unit(static_cast<uint32_t>(result.binaries_size()));
      failure->set_log(std::move(unit->failure));
    }
    result.add_binaries(std::move(unit->binary));
    *result.add_resources() = unit->resources;
  }
  AddStage(result, "jit/compile", compile_start);
  return result;
}

}  // namespace

absl::StatusOr<v1::JitResult> Jit(const v1::JitJob& job, const JitConfig& config,
                                  const OnUnit& on_unit) {
  JitConfig here = config;
  here.work_folder = WorkFolder(config);
  absl::StatusOr<v1::JitResult> result = JitHere(job, here, on_unit);
  // A disk that has room by its own account may take nothing all the same: for a quota, or a fault.
  if (!absl::IsInternal(result.status()) || config.spare_folder.empty() ||
      here.work_folder == config.spare_folder) {
    return result;
  }
  here.work_folder = config.spare_folder;
  absl::StatusOr<v1::JitResult> spare = JitHere(job, here, on_unit);
  return spare.ok() ? std::move(spare) : std::move(result);
}

std::string WorkFolder(const JitConfig& config) {
  const bool spare = !config.spare_folder.empty() && !HasRoom(config.work_folder);
  return spare ? config.spare_folder : config.work_folder;
}

absl::StatusOr<ToolchainInfo> FindToolchain(const v1::Target& target, const JitConfig& config) {
  TENSORD_ASSIGN_OR_RETURN(const BackendEntry* entry, BackendOf(target));
  return entry->toolchain(target, config);
}

v1::ToolchainList ListToolchains(const JitConfig& config) {
  v1::ToolchainList list;
  for (const BackendEntry* entry : kBackends) {
    const absl::StatusOr<std::string> found = entry->describe(config);
    v1::ToolchainState* state = list.add_toolchains();
    state->set_name(entry->name);
    if (found.ok()) state->set_found(*found);
    if (!found.ok()) state->set_problem(std::string(found.status().message()));
  }
  return list;
}

}  // namespace tensord::jit
