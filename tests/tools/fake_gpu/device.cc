// SPDX-License-Identifier: Apache-2.0
// A CUDA device that computes nothing, for a torch that is built without CUDA: fake tensors on
// "cuda" go through every operator, and autograd runs, so that graphs are captured as on a GPU.
// Loaded before torch asks what devices there are, by LD_PRELOAD.
// Constants of graphs, as lists of indices, are real there: they lie in the host's memory.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>

namespace at {
namespace {

const c10::Device kDevice(c10::DeviceType::CUDA, 0);

c10::Stream DefaultStream() { return c10::Stream(c10::Stream::DEFAULT, kDevice); }

// One device with one stream, on which everything is done at once.
struct FakeGuard : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  c10::Device getDevice() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const noexcept override { return DefaultStream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return DefaultStream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return DefaultStream(); }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};

struct FakeHooks : CUDAHooksInterface {
  explicit FakeHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isAvailable() const override { return true; }
  bool isBuilt() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return kDevice.index(); }
};

C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, FakeHooks)

// ---- Constants

struct HostMemory : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = std::malloc(bytes);
    return {memory, memory, &std::free, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

Tensor EmptyStrided(IntArrayRef sizes, IntArrayRef strides, std::optional<ScalarType> dtype,
                    std::optional<Layout>, std::optional<Device>, std::optional<bool>) {
  static HostMemory memory;
  return detail::empty_strided_generic(sizes, strides, &memory,
                                       c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                       dtype.value_or(ScalarType::Float));
}

Tensor OnHost(const Tensor& tensor) {
  return from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                   TensorOptions().dtype(tensor.dtype()).device(kCPU));
}

Tensor& Copy(Tensor& to, const Tensor& from, bool) {
  OnHost(to).copy_(OnHost(from));
  return to;
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty_strided", &EmptyStrided);
  m.impl("copy_", &Copy);
}

}  // namespace
}  // namespace at

C10_REGISTER_GUARD_IMPL(CUDA, at::FakeGuard)
