// SPDX-License-Identifier: Apache-2.0
#include "server/compile/compile_flow.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <set>
#include <system_error>

#include "base/clock.h"
#include "base/sha256.h"
#include "server/compile/request_bytes.h"
#include "server/fleet/kernels.h"
#include "server/program/keys.h"
#include "server/program/made_module.h"
#include "server/statistics/metrics.h"

namespace tensord::server {
namespace {

using Clock = std::chrono::steady_clock;

// Adds to the stage of that name, or appends it.
void AddStage(std::vector<v1::StageTime>& stages, const std::string& name, uint64_t nanoseconds) {
  auto found = std::find_if(stages.begin(), stages.end(),
                            [&](const v1::StageTime& stage) { return stage.stage() == name; });
  if (found == stages.end()) {
    found = stages.emplace(stages.end());
    found->set_stage(name);
  }
  found->set_nanoseconds(found->nanoseconds() + nanoseconds);
}

template <class List>
void AddStages(std::vector<v1::StageTime>& stages, const List& more) {
  for (const v1::StageTime& stage : more) AddStage(stages, stage.stage(), stage.nanoseconds());
}

}  // namespace

absl::StatusOr<FlowOutput> CompileFlow::Run(const FlowInput& input) {
  // Aborted: a kernel that was found has been evicted before the program that needs it was
  // published.
  constexpr int kAttempts = 3;
  absl::Duration budget = pool_->job_limit();
  absl::StatusOr<FlowOutput> output = CompileWithoutFailing(input, budget);
  for (int i = 1; i < kAttempts && absl::IsAborted(output.status()); ++i) {
    output = CompileWithoutFailing(input, budget);
  }
  if (!absl::IsInternal(output.status())) return output;
  const auto kept = KeepRepro(input, std::string(output.status().message()));
  absl::Status failure = absl::InternalError(
      absl::StrCat(output.status().message(),
                   kept.ok() ? absl::StrCat(" (the graph was kept as ", *kept, ")") : ""));
  output.status().ForEachPayload(
      [&](auto type, const absl::Cord& payload) { failure.SetPayload(type, payload); });
  return failure;
}

absl::StatusOr<std::string> CompileFlow::KeepRepro(const FlowInput& input,
                                                   const std::string& failure) {
  const auto step = board_->steps().Begin(input.program_key, kUsualDiskStep);
  v1::CompileJob more;
  more.set_failure(failure);
  absl::StatusOr<std::string> kept = store_->KeepRepro(
      ToHex(input.program_key), absl::StrCat(input.job, more.SerializeAsString()));
  if (kept.ok()) ++metrics_->repros_kept;
  return kept;
}

absl::StatusOr<FlowOutput> CompileFlow::CompileWithoutFailing(const FlowInput& input,
                                                              absl::Duration& budget) {
  Attempt attempt{.fleet_time = input.fleet_time};
  absl::StatusOr<FlowOutput> output = Compile(input, attempt, budget);
  for (int round = 1; round < kLibraryRounds; ++round) {
    // A compiler that compiles nothing is broken, which library calls throughout would hide.
    if (output.ok() || attempt.failed.empty() || !attempt.some_made) break;
    v1::CompileJob job;
    if (!job.ParseFromString(input.job)) return absl::InternalError("the job is no message");
    if (!AddLibraryNodes(job.graph(), attempt.failed, &attempt.library)) break;
    for (const FailedUnit& unit : attempt.failed) attempt.logs.push_back(unit.log);
    attempt.failed.clear();
    output = Compile(input, attempt, budget);
  }
  if (!output.ok() || attempt.logs.empty()) return output;
  output->kernel_failures = attempt.logs;
  const auto kept = KeepRepro(input, attempt.logs[0]);
  spdlog::warn("event=kernel_failed key={} nodes={} repro=\"{}\" log=\"{}\"",
               ToHex(input.program_key).substr(0, 12), attempt.library.size(), kept.value_or(""),
               attempt.logs[0]);
  return output;
}

absl::StatusOr<FlowOutput> CompileFlow::Compile(const FlowInput& input, Attempt& attempt,
                                                absl::Duration& budget) {
  const auto start = Clock::now();
  const auto whole = input.spans->Time("compile");
  board_->SetStage(input.program_key, v1::CompileProgress::COMPILING);
  v1::CompileJob more;
  for (const std::string& name : attempt.library) more.add_library_nodes(name);
  const std::string library = more.SerializeAsString();
  const std::string head = WorkerRequestHead(input.job.size() + library.size());
  const std::string_view pieces[] = {head, input.job, library};
  TENSORD_ASSIGN_OR_RETURN(v1::WorkerReply reply, CallCompiler(input, pieces, budget));
  v1::CompileResult& result = *reply.mutable_compiled();
  if (result.units_size() != result.artifact().modules_size()) {
    return absl::InternalError(absl::StrCat("the compiler gave ", result.units_size(),
                                            " units for ", result.artifact().modules_size(),
                                            " modules"));
  }

  FlowOutput output;
  AddStages(output.stages, result.stages());
  std::vector<Kernel> kernels;
  for (const v1::KernelUnit& unit : result.units()) {
    kernels.push_back({MakeKernelKey(unit, input.target, input.toolchain).Digest(), &unit, {}});
  }
  for (const std::string& log : attempt.logs) {
    result.add_fusion_notes(LibraryNote(log));
  }
  const absl::Status made =
      MakeKernels(input, kernels, output.stages, output.kernels_made, attempt, budget);
  attempt.some_made = attempt.failed.size() < kernels.size();
  TENSORD_RETURN_IF_ERROR(made);
  for (size_t i = 0; i < kernels.size(); ++i) {
    v1::Module& module = *result.mutable_artifact()->mutable_modules(static_cast<int>(i));
    if (!module.ParseFromString(kernels[i].row.facts)) {
      return absl::InternalError("what the store keeps of a kernel is no module");
    }
    module.set_sha256(kernels[i].row.sha256);
    module.set_size(kernels[i].row.size);
    module.set_kernel_key(kernels[i].key);
  }
  output.artifact = std::move(*result.mutable_artifact());
  TENSORD_RETURN_IF_ERROR(Publish(input, result, kernels, output, NanosecondsSince(start)));
  return output;
}

absl::StatusOr<v1::WorkerReply> CompileFlow::CallCompiler(
    const FlowInput& input, absl::Span<const std::string_view> request, absl::Duration& budget) {
  const uint64_t asked = MonotonicNanoseconds();
  const auto on_worker = input.spans->Time("sources");
  absl::StatusOr<v1::WorkerReply> reply = pool_->Call(request, input.cost, budget);
  if (reply.ok()) {
    input.spans->TakeFromWorker(reply->compiled().spans(), reply->pid(), "compiler", asked);
  }
  return reply;
}

absl::Status CompileFlow::MakeKernels(const FlowInput& input, std::vector<Kernel>& kernels,
                                      std::vector<v1::StageTime>& stages,
                                      std::vector<std::string>& made, Attempt& attempt,
                                      absl::Duration& budget) {
  const auto whole = input.spans->Time("kernels");
  // Equal units of one program are made once.
  std::map<std::string, Kernel*> open;
  for (Kernel& kernel : kernels) open.emplace(kernel.key, &kernel);
  ReadyKernels ready(board_, input.program_key, open.size());

  // A round finds what is stored, makes what nobody makes yet, then waits for the rest and looks
  // again. A kernel that another flight failed to make is then claimed here, and gives its own
  // error.
  while (!open.empty()) {
    std::vector<Kernel*> mine;
    absl::Cleanup finish = [&] {
      for (Kernel* kernel : mine) kernel_flights_.Finish(kernel->key);
    };
    std::map<std::string, Kernel*> others;
    {
      const auto looking = input.spans->Time("look-up of kernels");
      for (const auto& [key, kernel] : open) {
        const bool claimed = kernel_flights_.Claim(key);
        if (FindKernel(input, *kernel, ready)) {
          if (claimed) kernel_flights_.Finish(key);
        } else if (claimed) {
          mine.push_back(kernel);
        } else {
          others.emplace(key, kernel);
        }
      }
    }
    std::vector<Kernel*> to_make = mine;
    FetchFromFleet(input, to_make, ready, attempt);
    if (!to_make.empty()) {
      const auto start = Clock::now();
      const auto making = input.spans->Time("jit");
      TENSORD_RETURN_IF_ERROR(Jit(input, to_make, ready, stages, attempt.failed, budget));
      AddStage(stages, "jit", NanosecondsSince(start));
      for (const Kernel* kernel : to_make) made.push_back(kernel->key);
      metrics_->kernels_compiled += to_make.size();
    }
    std::move(finish).Invoke();
    if (!others.empty()) {
      const auto waiting = input.spans->Time("kernels of other compiles");
      const auto step = board_->steps().Wait(input.program_key);
      for (const auto& [key, kernel] : others) kernel_flights_.Wait(key);
    }
    open = std::move(others);
  }
  std::map<std::string, const store::KernelRow*> rows;
  for (const Kernel& kernel : kernels) {
    if (!kernel.row.sha256.empty()) rows[kernel.key] = &kernel.row;
  }
  for (Kernel& kernel : kernels) {
    if (kernel.row.sha256.empty()) kernel.row = *rows.at(kernel.key);
  }
  return absl::OkStatus();
}

bool CompileFlow::FindKernel(const FlowInput& input, Kernel& kernel, ReadyKernels& ready) {
  const auto step = board_->steps().Begin(input.program_key, kUsualDiskStep);
  auto row = store_->FindKernel(kernel.key);
  if (!row.has_value()) return false;
  kernel.row = *std::move(row);
  ++metrics_->kernels_reused;
  ready.Add(1);
  return true;
}

void CompileFlow::FetchFromFleet(const FlowInput& input, std::vector<Kernel*>& mine,
                                 ReadyKernels& ready, Attempt& attempt) {
  if (fleet_ == nullptr || mine.empty() || attempt.fleet_time <= absl::ZeroDuration()) return;
  const auto fetching = input.spans->Time("kernels of the fleet");
  std::vector<std::string> keys;
  for (const Kernel* kernel : mine) keys.push_back(kernel->key);
  const absl::Time start = SteadyNow();
  fleet::FetchKernels(*fleet_, store_, keys, attempt.fleet_time,
                      board_->steps().OnDisk(input.program_key));
  attempt.fleet_time -= SteadyNow() - start;
  std::erase_if(mine, [&](Kernel* kernel) { return FindKernel(input, *kernel, ready); });
}

absl::Status CompileFlow::Jit(const FlowInput& input, const std::vector<Kernel*>& kernels,
                              ReadyKernels& ready, std::vector<v1::StageTime>& stages,
                              std::vector<FailedUnit>& failed, absl::Duration& budget) {
  const size_t wanted = (kernels.size() + units_per_job_ - 1) / units_per_job_;
  const size_t jobs =
      std::clamp<size_t>(static_cast<size_t>(std::max(0, pool_->Free(input.cost))), 1, wanted);
  // Dealt out in turn: neighbours tend to be equally large, so every worker gets its share of the
  // large ones.
  std::vector<Share> shares(jobs, Share(budget));
  for (size_t i = 0; i < kernels.size(); ++i) shares[i % jobs].kernels.push_back(kernels[i]);

  std::vector<std::future<absl::Status>> running;
  const auto jit = [&](size_t i) { return JitOnOneWorker(input, shares[i], ready); };
  size_t own = 1;  // shares of this thread: the first, and those for which there is no other
  try {
    for (size_t i = jobs - 1; i > 0; --i) {
      running.push_back(std::async(std::launch::async, jit, i));
    }
  } catch (const std::system_error&) {
    own = jobs - running.size();
  }
  absl::Status status;
  for (size_t i = 0; i < own; ++i) status.Update(jit(i));
  for (std::future<absl::Status>& other : running) status.Update(other.get());
  for (Share& share : shares) {
    budget = std::min(budget, share.budget);
    AddStages(stages, share.stages);
    failed.insert(failed.end(), share.failed.begin(), share.failed.end());
    input.spans->Take(std::move(share.spans));
  }
  return status;
}

absl::Status CompileFlow::JitOnOneWorker(const FlowInput& input, Share& share,
                                         ReadyKernels& ready) {
  const std::vector<Kernel*>& kernels = share.kernels;
  v1::WorkerRequest request;
  v1::JitJob& job = *request.mutable_jit();
  *job.mutable_target() = input.target;
  job.set_reports_units(true);
  for (const Kernel* kernel : kernels) *job.add_units() = *kernel->unit;
  uint32_t counted = 0;
  const auto on_unit = [&](uint32_t done) {
    if (done > kernels.size() || done < counted) return;
    ready.Add(done - counted);
    counted = done;
  };
  const uint64_t asked = MonotonicNanoseconds();
  TENSORD_ASSIGN_OR_RETURN(v1::WorkerReply reply,
                           pool_->Call(request, input.cost, share.budget, on_unit));
  const v1::JitResult& result = reply.jitted();
  share.spans.TakeFromWorker(result.spans(), reply.pid(), "jit", asked);
  if (result.binaries_size() != static_cast<int>(kernels.size())) {
    return absl::InternalError(absl::StrCat("the JIT gave ", result.binaries_size(),
                                            " binaries for ", kernels.size(), " units"));
  }
  AddStages(share.stages, result.stages());
  // What was made is kept although others failed: the next attempt need not make it again.
  std::set<uint32_t> failed;
  for (const v1::UnitFailure& failure : result.failures()) {
    if (failure.unit() >= kernels.size()) return absl::InternalError("the JIT failed on no unit");
    failed.insert(failure.unit());
    const auto& nodes = kernels[failure.unit()]->unit->nodes();
    share.failed.push_back({{nodes.begin(), nodes.end()}, failure.log()});
  }
  metrics_->kernels_failed += failed.size();
  for (int i = 0; i < result.binaries_size(); ++i) {
    if (failed.count(static_cast<uint32_t>(i)) != 0) continue;
    const auto step = board_->steps().Begin(input.program_key, kUsualDiskStep);
    // The store keeps what a module says of it for programs that find the kernel made.
    kernels[i]->row =
        store_->PutKernel(kernels[i]->key, result.binaries(i), kernels[i]->unit->source(),
                          MadeModule(result, i).SerializeAsString());
  }
  return failed.empty() ? absl::OkStatus() : absl::InternalError(result.failures(0).log());
}

absl::Status CompileFlow::Publish(const FlowInput& input, const v1::CompileResult& result,
                                  const std::vector<Kernel>& kernels, FlowOutput& output,
                                  uint64_t nanoseconds) {
  const auto start = Clock::now();
  const auto publishing = input.spans->Time("publish");
  const auto step = board_->steps().Begin(input.program_key, kUsualDiskStep);
  board_->SetStage(input.program_key, v1::CompileProgress::PUBLISHING);
  store::Record record;
  for (const Kernel& kernel : kernels) record.blobs.push_back(kernel.row.sha256);
  record.payload = output.artifact.SerializeAsString();

  store::ProgramFacts facts;
  facts.label = input.label;
  facts.target = ArchOf(input.target);
  facts.nodes = static_cast<uint32_t>(input.nodes);
  for (const v1::Step& step : output.artifact.steps()) {
    facts.kernels += step.has_launch();
    facts.externs += step.has_call();
  }
  facts.compile_nanoseconds = nanoseconds;
  facts.traits = input.traits;

  // For people: everything of ProgramDetail but the artifact and the summary, which have their own
  // places, and the sources, which are kept once per kernel.
  v1::ProgramDetail detail = input.key_detail;
  *detail.mutable_fusion_notes() = result.fusion_notes();
  *detail.mutable_fusion() = result.fusion();
  for (const v1::StageTime& stage : output.stages) *detail.add_stages() = stage;
  *detail.mutable_spans() = input.spans->Stored();
  for (const Kernel& kernel : kernels) {
    v1::KernelSource& source = *detail.add_sources();
    source.set_function(kernel.unit->functions().empty() ? "" : kernel.unit->functions(0));
    source.set_description(kernel.unit->description());
    source.set_kernel_key(kernel.key);
  }
  detail.set_compiler_build(input.compiler_build);
  detail.set_toolchain(input.toolchain);
  TENSORD_RETURN_IF_ERROR(
      store_->Publish(input.program_key, std::move(record), detail.SerializeAsString(), facts));
  AddStage(output.stages, "publish", NanosecondsSince(start));
  return absl::OkStatus();
}

}  // namespace tensord::server
