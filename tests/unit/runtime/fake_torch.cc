// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/runtime/fake_torch.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "tensord/kernel_abi.h"

extern "C" int32_t aoti_torch_clone_preserve_strides(TensordTensor self, TensordTensor* result);

namespace tensord::testing {
namespace {

struct Tensor {
  std::shared_ptr<char> storage;
  int64_t bytes = 0;   // of the storage
  int64_t offset = 0;  // in elements
  std::vector<int64_t> sizes, strides;
  int32_t dtype = kFloat32, device = kCpu, index = 0;

  int64_t itemsize() const {
    return dtype == kFloat32 ? 4 : dtype == kInt64 ? 8 : dtype == kBfloat16 ? 2 : 1;
  }
  char* data() const { return storage.get() + offset * itemsize(); }
};

Tensor* Of(TensordTensor handle) { return static_cast<Tensor*>(handle); }

TensordTensor New(Tensor tensor) {
  ++Fake().live_tensors;
  return new Tensor(std::move(tensor));
}

std::vector<int64_t> List(const int64_t* values, int64_t count) { return {values, values + count}; }

std::shared_ptr<char> Storage(int64_t bytes, int64_t misalign) {
  const auto size = static_cast<size_t>((bytes + misalign + 63) / 64 * 64 + 64);
  std::shared_ptr<char> block(static_cast<char*>(std::aligned_alloc(64, size)), std::free);
  std::memset(block.get(), 0x7f, size);
  return {block, block.get() + misalign};
}

// Calls `visit(a, b)` with the addresses of every pair of elements.
template <typename Visit>
void ForEach(const Tensor& a, const Tensor& b, const Visit& visit, size_t dim = 0, int64_t at_a = 0,
             int64_t at_b = 0) {
  if (dim == a.sizes.size()) {
    visit(a.data() + at_a * a.itemsize(), b.data() + at_b * b.itemsize());
    return;
  }
  for (int64_t i = 0; i < a.sizes[dim]; ++i) {
    ForEach(a, b, visit, dim + 1, at_a + i * a.strides[dim], at_b + i * b.strides[dim]);
  }
}

// More than any test has: torch fails where there is no memory.
constexpr int64_t kMostBytes = int64_t{1} << 30;

int32_t Product(const char* name, TensordTensor out) {
  Fake().products.push_back(std::string(name) + (DeviceOf(out) == kCuda ? " on cuda" : " on cpu"));
  return 0;
}

}  // namespace

FakeTorch& Fake() {
  static FakeTorch fake;
  return fake;
}

void* StreamOf(int device) { return reinterpret_cast<void*>(static_cast<intptr_t>(device) + 100); }

TensordTensor NewFake(std::vector<int64_t> sizes, int32_t device, int32_t index,
                      std::vector<float> values, int64_t misalign, int32_t dtype) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.device = device;
  tensor.index = index;
  tensor.strides.resize(sizes.size());
  int64_t count = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    tensor.strides[i] = count;
    count *= sizes[i];
  }
  tensor.sizes = std::move(sizes);
  tensor.bytes = count * tensor.itemsize();
  tensor.storage = Storage(tensor.bytes, misalign);
  if (!values.empty()) std::memcpy(tensor.data(), values.data(), values.size() * 4);
  return New(std::move(tensor));
}

TensordTensor CloneFake(TensordTensor tensor) {
  TensordTensor result = nullptr;
  aoti_torch_clone_preserve_strides(tensor, &result);
  return result;
}

float* Data(TensordTensor tensor) { return reinterpret_cast<float*>(Of(tensor)->data()); }
int32_t DeviceOf(TensordTensor tensor) { return Of(tensor)->device; }
int32_t IndexOf(TensordTensor tensor) { return Of(tensor)->index; }
void Delete(TensordTensor tensor) {
  --Fake().live_tensors;
  delete Of(tensor);
}

}  // namespace tensord::testing

using namespace tensord::testing;  // NOLINT: the shim's functions follow

#pragma GCC visibility push(default)
extern "C" {

uint64_t aoti_torch_abi_version() { return uint64_t{2} << 56 | uint64_t{11} << 48; }

int32_t aoti_torch_get_data_ptr(TensordTensor t, void** data) {
  *data = Of(t)->data();
  return 0;
}
int32_t aoti_torch_get_dim(TensordTensor t, int64_t* ndim) {
  *ndim = static_cast<int64_t>(Of(t)->sizes.size());
  return 0;
}
int32_t aoti_torch_get_sizes(TensordTensor t, int64_t** sizes) {
  *sizes = Of(t)->sizes.data();
  return 0;
}
int32_t aoti_torch_get_strides(TensordTensor t, int64_t** strides) {
  *strides = Of(t)->strides.data();
  return 0;
}
int32_t aoti_torch_get_dtype(TensordTensor t, int32_t* dtype) {
  *dtype = Of(t)->dtype;
  return 0;
}
int32_t aoti_torch_get_device_type(TensordTensor t, int32_t* device) {
  *device = Of(t)->device;
  return 0;
}
int32_t aoti_torch_get_device_index(TensordTensor t, int32_t* index) {
  *index = Of(t)->index;
  return 0;
}
int32_t aoti_torch_get_storage_offset(TensordTensor t, int64_t* offset) {
  *offset = Of(t)->offset;
  return 0;
}
int32_t aoti_torch_get_storage_size(TensordTensor t, int64_t* size) {
  *size = Of(t)->bytes;
  return 0;
}
int32_t aoti_torch_is_defined(TensordTensor t, bool* defined) {
  *defined = t != nullptr;
  return 0;
}
int32_t aoti_torch_delete_tensor_object(TensordTensor t) {
  Delete(t);
  return 0;
}
int32_t aoti_torch_new_tensor_handle(TensordTensor t, TensordTensor* result) {
  *result = New(*Of(t));
  return 0;
}

int32_t aoti_torch_empty_strided(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                                 int32_t dtype, int32_t device, int32_t index,
                                 TensordTensor* result) {
  FakeTorch& fake = Fake();
  if (fake.fail_allocation > 0 && --fake.fail_allocation == 0) return 1;
  ++fake.allocations;
  Tensor tensor;
  tensor.sizes = List(sizes, ndim);
  tensor.strides = List(strides, ndim);
  tensor.dtype = dtype;
  tensor.device = device;
  tensor.index = index;
  int64_t last = 0, part = 0;
  bool empty = false, fits = true;  // sizes and strides may be any numbers
  for (int64_t i = 0; i < ndim; ++i) {
    empty |= sizes[i] == 0;
    fits = fits && !__builtin_sub_overflow(sizes[i], 1, &part) &&
           !__builtin_mul_overflow(part, strides[i], &part) &&
           !__builtin_add_overflow(last, part, &last);
  }
  if (!empty && (!fits || last < 0 || last >= kMostBytes)) return 1;
  tensor.bytes = empty ? 0 : (last + 1) * tensor.itemsize();
  if (tensor.bytes > kMostBytes) return 1;
  tensor.storage = Storage(tensor.bytes, 0);
  *result = New(std::move(tensor));
  return 0;
}
int32_t aoti_torch__reinterpret_tensor(TensordTensor self, int64_t ndim, const int64_t* sizes,
                                       const int64_t* strides, int64_t increment,
                                       TensordTensor* result) {
  Tensor view = *Of(self);
  view.sizes = List(sizes, ndim);
  view.strides = List(strides, ndim);
  view.offset += increment;
  *result = New(std::move(view));
  return 0;
}
int32_t aoti_torch__alloc_from_pool(TensordTensor self, int64_t offset_bytes, int32_t dtype,
                                    int64_t ndim, const int64_t* sizes, const int64_t* strides,
                                    TensordTensor* result) {
  Tensor view = *Of(self);
  view.dtype = dtype;
  view.sizes = List(sizes, ndim);
  view.strides = List(strides, ndim);
  view.offset = offset_bytes / view.itemsize();
  *result = New(std::move(view));
  return 0;
}
int32_t aoti_torch_copy_(TensordTensor self, TensordTensor source, int32_t) {
  ++Fake().copies;
  const auto bytes = static_cast<size_t>(Of(self)->itemsize());
  ForEach(*Of(self), *Of(source),
          [bytes](char* to, const char* from) { std::memcpy(to, from, bytes); });
  return 0;
}
int32_t aoti_torch_clone_preserve_strides(TensordTensor self, TensordTensor* result) {
  Tensor copy = *Of(self);
  copy.storage = Storage(copy.bytes, 0);
  std::memcpy(copy.storage.get(), Of(self)->storage.get(), static_cast<size_t>(copy.bytes));
  *result = New(std::move(copy));
  return 0;
}

bool aoti_torch_grad_mode_is_enabled() { return false; }
void aoti_torch_grad_mode_set_enabled(bool) {}
int32_t torch_parallel_for(int64_t begin, int64_t end, int64_t, TensordRangeFn fn, void* context) {
  fn(begin, end, context);
  return 0;
}
int32_t torch_get_num_threads(uint32_t* threads) {
  *threads = 1;
  return 0;
}

// No test calls operators but the products.
int32_t torch_call_dispatcher(const char*, const char*, uint64_t*, uint64_t) { return 1; }
int32_t torch_new_list_reserve_size(size_t, void**) { return 1; }
int32_t torch_list_push_back(void*, uint64_t) { return 1; }
int32_t torch_delete_list(void*) { return 1; }
int32_t torch_new_string_handle(const char*, size_t, void**) { return 1; }

int32_t aoti_torch_cpu_mm_out(TensordTensor out, TensordTensor, TensordTensor) {
  return Product("cpu_mm_out", out);
}
int32_t aoti_torch_cpu_bmm_out(TensordTensor out, TensordTensor, TensordTensor) {
  return Product("cpu_bmm_out", out);
}
int32_t aoti_torch_cpu_addmm_out(TensordTensor out, TensordTensor, TensordTensor, TensordTensor,
                                 double, double) {
  return Product("cpu_addmm_out", out);
}
int32_t aoti_torch_cpu_baddbmm_out(TensordTensor out, TensordTensor, TensordTensor, TensordTensor,
                                   double, double) {
  return Product("cpu_baddbmm_out", out);
}
int32_t aoti_torch_cuda_mm_out(TensordTensor out, TensordTensor, TensordTensor) {
  return Product("cuda_mm_out", out);
}

// Only the weight's gradient is wanted; this torch gives the bias's too.
int32_t aoti_torch_cuda_convolution_backward(
    TensordTensor, TensordTensor, TensordTensor weight, const int64_t** bias_sizes, int64_t,
    const int64_t* stride, int64_t dims, const int64_t*, int64_t, const int64_t*, int64_t, int32_t,
    const int64_t*, int64_t, int64_t groups, const int32_t* mask, int64_t masks,
    TensordTensor* of_input, TensordTensor* of_weight, TensordTensor* of_bias) {
  Product("cuda_convolution_backward", weight);
  const bool right = bias_sizes == nullptr && dims == 2 && stride[1] == 3 && groups == 1 &&
                     masks == 3 && mask[0] == 0 && mask[1] == 1;
  if (!right) return 1;
  *of_input = nullptr;
  *of_weight = NewFake({8}, kCuda);
  *of_bias = NewFake({2}, kCuda);
  return 0;
}

int32_t aoti_torch_get_current_cuda_stream(int32_t device, void** stream) {
  *stream = StreamOf(device);
  return 0;
}
// As torch's: the runtime is asked only where the device differs from the thread's.
int32_t aoti_torch_create_cuda_guard(int32_t device, void** guard) {
  FakeTorch& fake = Fake();
  const int before = fake.get_device ? fake.get_device() : 0;
  ++fake.guards;
  ++fake.live_guards;
  if (fake.set_device && (before < 0 ? 0 : before) != device) fake.set_device(device);
  *guard = new int(before);
  return 0;
}
int32_t aoti_torch_delete_cuda_guard(void* guard) {
  FakeTorch& fake = Fake();
  --fake.live_guards;
  if (fake.set_device && *static_cast<int*>(guard) >= 0) fake.set_device(*static_cast<int*>(guard));
  delete static_cast<int*>(guard);
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
