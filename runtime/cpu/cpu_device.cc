// SPDX-License-Identifier: Apache-2.0
// CPU programs: modules are shared objects, a launch is a call that splits itself over torch's
// thread pool.
#include "runtime/cpu/cpu_device.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/blobs.h"
#include "runtime/call/workspace.h"

namespace tensord::runtime {
namespace {

// Set where torch's pool could not run a range; the launch that asked for it then fails.
thread_local bool parallel_for_failed = false;

void HostParallelFor(int64_t begin, int64_t end, int64_t grain, TensordRangeFn fn, void* context) {
  const Torch* torch = nullptr;
  if (GetTorch(&torch) != TENSORD_OK) return fn(begin, end, context);
  if (torch->parallel_for(begin, end, grain, fn, context) != 0) parallel_for_failed = true;
}

// Eager's words, by kind.
constexpr const char* kWords[] = {
    "",
    "",  // an index, which is told as well
    "ZeroDivisionError",
    "all elements of input should be between 0 and 1",
    "all elements of target should be between 0 and 1",
    "Expected p_in >= 0 && p_in <= 1 to be true, but got false.",
    "normal expects all elements of std >= 0.0",
};

TensordError ReportFault(const TensordFault& fault) {
  if (fault.kind != TENSORD_FAULT_INDEX) {
    const auto kind = static_cast<size_t>(fault.kind);
    return Fail(TENSORD_OPERATOR,
                kind < std::size(kWords) ? kWords[kind] : "data that this operator does not take");
  }
  const std::string index = std::to_string(fault.index);
  if (fault.dimension < 0) return Fail(TENSORD_INDEX, "Target " + index + " is out of bounds.");
  return Fail(TENSORD_INDEX, "index " + index + " is out of bounds for dimension " +
                                 std::to_string(fault.dimension) + " with size " +
                                 std::to_string(fault.size));
}

class CpuDevice final : public Device {
 public:
  TensordError AddLaunch(const v1::KernelLaunch& proto, v1::Module::Kind module,
                         TensordProgram& program) override {
    if (module != v1::Module::SHARED_OBJECT) {
      return Fail(TENSORD_CORRUPT, "its module is no shared object");
    }
    CpuLaunch launch;
    if (proto.has_scratch_bytes_per_thread()) {
      ExprTable& exprs = program.exprs;
      TENSORD_TRY(exprs.Add(proto.scratch_bytes_per_thread(), &launch.scratch_bytes_per_thread));
      launch.has_scratch = !exprs.IsConstant(launch.scratch_bytes_per_thread) ||
                           exprs.values()[launch.scratch_bytes_per_thread] != 0;
    }
    launches_.push_back(launch);
    return TENSORD_OK;
  }

  TensordError Link(const v1::Artifact& artifact, const std::string& blob_folder,
                    TensordProgram&) override {
    for (const v1::Module& proto : artifact.modules()) {
      std::shared_ptr<LoadedModule> module;
      TENSORD_TRY(LoadModule(blob_folder, proto.sha256(), proto.size(), &module));
      modules_.push_back(std::move(module));
    }
    size_t number = 0;
    for (const v1::Step& step : artifact.steps()) {
      if (!step.has_launch()) continue;
      const LoadedModule& module = *modules_[step.launch().module()];
      void* function = module.FindFunction(step.launch().function());
      if (function == nullptr) {
        return Fail(TENSORD_CORRUPT, "blob " + module.path() + " has no function '" +
                                         step.launch().function() + "'");
      }
      launches_[number++].function = reinterpret_cast<TensordKernelFn>(function);
    }
    return TENSORD_OK;
  }

  TensordError Begin(CallState& state) override {
    state.constants = state.program->constants.data();
    state.fault = {};
    state.host = {HostParallelFor, 1, &state.fault};
    uint32_t threads = 1;
    if (!launches_.empty() && state.torch->get_num_threads(&threads) == 0) {
      state.host.threads = std::max<int32_t>(1, static_cast<int32_t>(threads));
    }
    return TENSORD_OK;
  }

  TensordError Launch(CallState& state, uint32_t number) override {
    const LaunchPlan& plan = state.program->launches[number];
    const CpuLaunch& launch = launches_[number];
    size_t count = 0;
    for (uint32_t buffer : plan.buffers) state.pointers[count++] = state.addresses[buffer];
    void* scratch = nullptr;
    if (launch.has_scratch) {
      const int64_t each = state.values[launch.scratch_bytes_per_thread];
      int64_t bytes = 0;
      if (each < 0 || __builtin_mul_overflow(each, state.host.threads, &bytes) ||
          bytes > INT64_MAX / 2) {
        return Fail(TENSORD_CORRUPT, "a kernel's scratch size is negative or too large");
      }
      scratch = bytes == 0 ? nullptr : GetScratch(state, static_cast<size_t>(bytes));
      if (bytes != 0 && scratch == nullptr) {
        return Fail(TENSORD_UNAVAILABLE, "no memory for a kernel's scratch");
      }
    }
    const TensordKernelArgs arguments = {state.pointers.data(), state.values + plan.integers,
                                         scratch, &state.host};
    launch.function(&arguments);
    if (parallel_for_failed) [[unlikely]] {
      parallel_for_failed = false;
      return Fail(TENSORD_OPERATOR, "torch's thread pool failed under a kernel");
    }
    if (state.fault.kind != TENSORD_FAULT_NONE) [[unlikely]]
      return ReportFault(state.fault);
    return TENSORD_OK;
  }

  TensordError ZeroFill(CallState&, char* memory, size_t bytes) override {
    std::memset(memory, 0, bytes);
    return TENSORD_OK;
  }

  void End(CallState&) override {}

  std::unique_ptr<StepClock> NewStepClock(CallState&) override {
    return std::make_unique<HostClock>();
  }

  // torch itself raises a plain RuntimeError where the host has no memory.
  TensordError AllocationError(const CallState&) const override { return TENSORD_OPERATOR; }

 private:
  struct CpuLaunch {
    TensordKernelFn function = nullptr;
    Slot scratch_bytes_per_thread = 0;
    bool has_scratch = false;
  };
  std::vector<CpuLaunch> launches_;
  std::vector<std::shared_ptr<LoadedModule>> modules_;
};

}  // namespace

std::unique_ptr<Device> NewCpuDevice() { return std::make_unique<CpuDevice>(); }

}  // namespace tensord::runtime
