// SPDX-License-Identifier: Apache-2.0
// CUDA programs: kernels are launched on torch's current stream of the device where the inputs are.
//
// Everything of a call (kernels, torch's operators, the memory that the call allocates and frees)
// is ordered by that one stream, and torch's allocator reuses memory in the order of the stream
// that it was allocated for: nothing has to be recorded, waited for or synchronised.
#include "runtime/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "runtime/base/switch.h"
#include "runtime/call/workspace.h"
#include "runtime/cuda/cuda_driver.h"
#include "runtime/cuda/cuda_module.h"
#include "runtime/cuda/cuda_products.h"
#include "runtime/cuda/cuda_step_clock.h"
#include "runtime/program/layout.h"

namespace tensord::runtime {
namespace {

constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxSharedBytes = 1 << 20;
constexpr size_t kMaxParameterBytes = 32764;
constexpr int64_t kMaxBlocks = INT32_MAX;

// Held while a program is made ready for a device: its first call there.
std::mutex& PrepareMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

class CudaDevice final : public Device {
 public:
  ~CudaDevice() override {
    for (auto& slot : prepared_) {
      const Prepared* prepared = slot.load(std::memory_order_acquire);
      if (prepared == nullptr) continue;
      for (Handle handle : prepared->owned) torch_->delete_tensor(handle);
      delete prepared;
    }
  }

  TensordError AddLaunch(const v1::KernelLaunch& proto, v1::Module::Kind module,
                         TensordProgram& program) override {
    if (module != v1::Module::CUBIN && module != v1::Module::PTX) {
      return Fail(TENSORD_CORRUPT, "its module is neither a cubin nor PTX");
    }
    const v1::CudaLaunch& cuda = proto.cuda();
    if (!proto.has_cuda() || proto.has_scratch_bytes_per_thread()) {
      return Fail(TENSORD_CORRUPT, "it is no launch of a CUDA kernel");
    }
    if (cuda.block() == 0 || cuda.block() > kMaxThreads || cuda.shared_bytes() > kMaxSharedBytes) {
      return Fail(TENSORD_CORRUPT, "its block or its shared memory is out of range");
    }
    const LaunchPlan& plan = program.launches.back();
    for (uint32_t buffer : plan.buffers) {
      if (program.buffers[buffer].layout.device != kTorchCuda) {
        return Fail(TENSORD_CORRUPT, "a CUDA kernel takes a tensor on another device");
      }
    }
    CudaLaunch launch;
    launch.function = proto.function();
    launch.description = proto.description();
    launch.block = cuda.block();
    launch.shared_bytes = cuda.shared_bytes();
    launch.waits_itself = cuda.waits_itself() && IsSwitchedOn("TENSORD_PROGRAMMATIC_LAUNCH");
    TENSORD_TRY(program.exprs.Add(cuda.grid(), &launch.grid));
    launch.has_scratch = cuda.has_scratch();
    if (launch.has_scratch) {
      program.uses_workspace = true;
      TENSORD_TRY(program.exprs.Add(cuda.scratch(), &launch.scratch));
    }
    launch.has_counters = cuda.has_counters();
    if (launch.has_counters) {
      program.uses_workspace = true;
      TENSORD_TRY(program.exprs.Add(cuda.counters(), &launch.counters));
    }
    launch.num_words = plan.buffers.size() + (launch.has_scratch ? 1 : 0) +
                       (launch.has_counters ? 1 : 0) + plan.num_integers;
    if (launch.num_words * sizeof(uint64_t) > kMaxParameterBytes) {
      return Fail(TENSORD_CORRUPT, "it has too many arguments");
    }
    program.max_launch_words = std::max(program.max_launch_words, launch.num_words);
    launches_.push_back(std::move(launch));
    return TENSORD_OK;
  }

  TensordError Link(const v1::Artifact& artifact, const std::string& blob_folder,
                    TensordProgram& program) override {
    torch_ = program.torch;
    if (torch_->get_current_cuda_stream == nullptr || torch_->create_cuda_guard == nullptr ||
        torch_->delete_cuda_guard == nullptr) {
      return Fail(TENSORD_UNAVAILABLE, "this torch was built without CUDA");
    }
    std::vector<std::shared_ptr<CudaModule>> modules;
    for (const v1::Module& proto : artifact.modules()) {
      std::shared_ptr<CudaModule> module;
      TENSORD_TRY(OpenCudaModule(blob_folder, proto.sha256(), proto.size(), &module));
      modules.push_back(std::move(module));
    }
    size_t number = 0;
    for (const v1::Step& step : artifact.steps()) {
      if (step.has_launch()) launches_[number++].module = modules[step.launch().module()];
    }
    products_.Find(program, artifact.target().cuda().sm());
    return TENSORD_OK;
  }

  TensordError Begin(CallState& state) override {
    TENSORD_TRY(GetCudaDriver(&state.driver));
    TENSORD_TRY(EnterDevice(state));
    const auto index = static_cast<size_t>(state.device_index);
    if (index >= kMaxDevices) return Fail(TENSORD_INVALID, "the device's index is out of range");
    void* stream = nullptr;
    if (torch_->get_current_cuda_stream(state.device_index, &stream) != 0) {
      return TorchFailed(*torch_, "torch has no current CUDA stream");
    }
    state.stream = static_cast<CuStream>(stream);
    state.prepared = prepared_[index].load(std::memory_order_acquire);
    if (state.prepared == nullptr) [[unlikely]] {
      TENSORD_TRY(Prepare(state));
    }
    state.constants = static_cast<const Prepared*>(state.prepared)->constants.data();
    return TENSORD_OK;
  }

  TensordError Launch(CallState& state, uint32_t number) override {
    const LaunchPlan& plan = state.program->launches[number];
    const CudaLaunch& launch = launches_[number];
    const int64_t grid = state.values[launch.grid];
    if (grid == 0) return TENSORD_OK;
    if (grid < 0 || grid > kMaxBlocks) [[unlikely]] {
      return Fail(TENSORD_CORRUPT, Named(launch) + " has " + std::to_string(grid) + " blocks");
    }
    uint64_t* word = state.words.data();
    for (uint32_t buffer : plan.buffers) {
      *word++ = reinterpret_cast<uint64_t>(state.addresses[buffer]);
    }
    if (launch.has_scratch) TENSORD_TRY(PutAddress(state, launch, launch.scratch, word++));
    if (launch.has_counters) TENSORD_TRY(PutAddress(state, launch, launch.counters, word++));
    std::copy_n(state.values + plan.integers, plan.num_integers, reinterpret_cast<int64_t*>(word));
    void* parameters[] = {state.words.data()};
    const CuFunction function = static_cast<const Prepared*>(state.prepared)->functions[number];
    static CuLaunchAttribute programmatic = {kProgrammaticLaunchAttribute, {1}};
    const CuLaunchConfig config = {{static_cast<unsigned>(grid), 1, 1},
                                   {launch.block, 1, 1},
                                   launch.shared_bytes,
                                   state.stream,
                                   &programmatic,
                                   launch.waits_itself ? 1U : 0U};
    const CuResult result = state.driver->launch(&config, function, parameters, nullptr);
    if (result == kCudaSuccess) [[likely]]
      return TENSORD_OK;
    // Kernels fail after their launch, so an error may be that of any kernel before.
    return CudaFailed(*state.driver, result, "in or before " + Named(launch));
  }

  TensordError ZeroFill(CallState& state, char* memory, size_t bytes) override {
    if (bytes == 0) return TENSORD_OK;
    const auto address = reinterpret_cast<uint64_t>(memory);
    const CuResult result = state.driver->fill_bytes(address, 0, bytes, state.stream);
    if (result == kCudaSuccess) [[likely]]
      return TENSORD_OK;
    return CudaFailed(*state.driver, result, "while a part of the workspace was zeroed");
  }

  bool Takes(uint32_t number) const override { return products_.Has(number); }
  bool Call(CallState& state, uint32_t number) override {
    const auto& products = static_cast<const Prepared*>(state.prepared)->products;
    return products != nullptr && products->Run(state, number);
  }

  void End(CallState& state) override {
    FreeProductWorkspace(state);
    if (state.device_guard != nullptr) torch_->delete_cuda_guard(state.device_guard);
    state.device_guard = nullptr;
    state.prepared = nullptr;
  }

  std::unique_ptr<StepClock> NewStepClock(CallState& state) override {
    return NewCudaStepClock(*state.driver, state.stream);
  }

  // An allocation fails too when a kernel before it did, and then every call of the driver says so.
  TensordError AllocationError(const CallState& state) const override {
    const CuResult result = state.driver->query_stream(state.stream);
    return result == kCudaSuccess || result == kCudaNotReady ? TENSORD_OUT_OF_MEMORY
                                                             : TENSORD_OPERATOR;
  }

 private:
  struct CudaLaunch {
    std::string function, description;
    std::shared_ptr<CudaModule> module;
    Slot grid = 0;
    Slot scratch = 0, counters = 0;
    bool has_scratch = false, has_counters = false;
    uint32_t block = 0, shared_bytes = 0;
    bool waits_itself = false;
    size_t num_words = 0;
  };

  // What a program has on one device from its first call there on.
  struct Prepared {
    std::vector<CuFunction> functions;  // per launch
    std::vector<Handle> constants;      // per constant
    std::vector<Handle> owned;          // those of them that are this device's
    std::unique_ptr<PreparedProducts> products;
  };

  static std::string Named(const CudaLaunch& launch) {
    return "kernel '" + launch.function + "'" +
           (launch.description.empty() ? "" : " (from " + launch.description + ")");
  }

  // The address of the launch's own memory in the workspace, `offset` from its start.
  static TensordError PutAddress(const CallState& state, const CudaLaunch& launch, Slot offset,
                                 uint64_t* word) {
    const int64_t bytes = state.values[offset];
    if (bytes < 0 || bytes % kWorkspaceAlignment != 0 ||
        bytes > state.values[state.program->workspace_bytes]) [[unlikely]] {
      return Fail(TENSORD_CORRUPT, Named(launch) + ": its own memory lies outside the workspace");
    }
    *word = reinterpret_cast<uint64_t>(state.workspace + bytes);
    return TENSORD_OK;
  }

  // Makes the inputs' device the thread's current one, where it is not, until End. Asking is one
  // look at the thread's context; a guard is torch's, and calls the CUDA runtime.
  TensordError EnterDevice(CallState& state) {
    CuDevice current = -1;
    CuResult result = CurrentDevice(*state.driver, &current);
    if (state.device_index < 0) state.device_index = result == kCudaSuccess ? current : 0;
    if (result == kCudaSuccess && current == state.device_index) return TENSORD_OK;
    if (torch_->create_cuda_guard(state.device_index, &state.device_guard) != 0) {
      state.device_guard = nullptr;
      return TorchFailed(*torch_,
                         "cannot use the device cuda:" + std::to_string(state.device_index));
    }
    result = CurrentDevice(*state.driver, &current);
    if (result == kCudaSuccess) return TENSORD_OK;
    if (result != kCudaInvalidContext) {
      return CudaFailed(*state.driver, result, "the driver knows no current device");
    }
    // A thread that has done nothing with CUDA yet: as the CUDA runtime would, at its first call.
    CuDevice device = 0;
    CuContext context = nullptr;
    result = state.driver->device_of_index(&device, state.device_index);
    if (result == kCudaSuccess) result = state.driver->retain_primary_context(&context, device);
    if (result == kCudaSuccess) result = state.driver->set_context(context);
    if (result == kCudaSuccess) return TENSORD_OK;
    return CudaFailed(*state.driver, result, "a thread cannot use the device's context");
  }

  TensordError Prepare(CallState& state) {
    const std::lock_guard lock(PrepareMutex());
    auto& slot = prepared_[static_cast<size_t>(state.device_index)];
    if ((state.prepared = slot.load(std::memory_order_acquire)) != nullptr) return TENSORD_OK;
    auto prepared = std::make_unique<Prepared>();
    for (const CudaLaunch& launch : launches_) {
      CuFunction function = nullptr;
      TENSORD_TRY(launch.module->FindFunction(
          *state.driver, launch.function,
          {launch.num_words * sizeof(uint64_t), launch.shared_bytes}, &function));
      prepared->functions.push_back(function);
    }
    const TensordError code = Upload(state, prepared.get());
    if (code != TENSORD_OK) {
      for (Handle handle : prepared->owned) torch_->delete_tensor(handle);
      return code;
    }
    prepared->products = products_.Prepare(state.device_index);
    state.prepared = prepared.get();
    slot.store(prepared.release(), std::memory_order_release);
    return TENSORD_OK;
  }

  // Copies the constants to the device. The copies have ended when this returns, so any stream may
  // read them.
  TensordError Upload(CallState& state, Prepared* prepared) {
    const TensordProgram& program = *state.program;
    for (size_t i = 0; i < program.constants.size(); ++i) {
      const Layout& layout = program.constant_layouts[i];
      if (layout.device != kTorchCuda) {
        prepared->constants.push_back(program.constants[i]);
        continue;
      }
      Handle handle = nullptr;
      TENSORD_TRY(NewTensor(state, layout, &handle));
      prepared->owned.push_back(handle);
      prepared->constants.push_back(handle);
      if (torch_->copy(handle, program.constants[i], 0) != 0) {
        return TorchFailed(*torch_, "cannot copy a constant to the device");
      }
    }
    return TENSORD_OK;
  }

  const Torch* torch_ = nullptr;
  std::vector<CudaLaunch> launches_;
  CudaProducts products_;
  std::array<std::atomic<const Prepared*>, kMaxDevices> prepared_{};
};

}  // namespace

std::unique_ptr<Device> NewCudaDevice() { return std::make_unique<CudaDevice>(); }

}  // namespace tensord::runtime
