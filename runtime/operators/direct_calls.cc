// SPDX-License-Identifier: Apache-2.0
#include "runtime/operators/direct_calls.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tensord::runtime {

struct DirectCall {
  std::string_view op;
  int32_t device;
  uint32_t num_arguments;  // with those of out=, last
  bool into_out;
  TorchError (*call)(const Torch& torch, const TensordValue* arguments, Handle* results);
  bool (*exists)(const Torch& torch, const CallPlan& call);
};

namespace {

constexpr size_t kMostDims = 3;

double Number(const TensordValue& value) {
  return value.kind == TENSORD_DOUBLE ? value.real : static_cast<double>(value.integer);
}

template <auto Function>
TorchError Product(const Torch& torch, const TensordValue* a, Handle*) {
  return (torch.*Function)(a[2].tensor, a[0].tensor, a[1].tensor);
}

template <auto Function>
TorchError AddProduct(const Torch& torch, const TensordValue* a, Handle*) {
  return (torch.*Function)(a[5].tensor, a[0].tensor, a[1].tensor, a[2].tensor, Number(a[3]),
                           Number(a[4]));
}

// A list of numbers as an array.
template <typename Integer>
class Numbers {
 public:
  explicit Numbers(const TensordValue& list) : size_(static_cast<int64_t>(list.size)) {
    for (size_t i = 0; i < list.size; ++i) at_[i] = static_cast<Integer>(list.items[i].integer);
  }
  const Integer* data() const { return at_.data(); }
  int64_t size() const { return size_; }

 private:
  std::array<Integer, kMostDims> at_;
  int64_t size_;
};
using Sizes = Numbers<int64_t>;

// The numbers of a convolution: stride, padding, dilation, transposed, output_padding, groups.
struct Geometry {
  explicit Geometry(const TensordValue* a)
      : stride(a[0]),
        padding(a[1]),
        dilation(a[2]),
        transposed(a[3].integer != 0),
        output_padding(a[4]),
        groups(a[5].integer) {}
  Sizes stride, padding, dilation;
  int32_t transposed;
  Sizes output_padding;
  int64_t groups;
};

// (input, weight, bias?, the numbers).
template <auto Function>
TorchError Convolution(const Torch& torch, const TensordValue* a, Handle* results) {
  const Geometry g(a + 3);
  Handle bias = a[2].kind == TENSORD_TENSOR ? a[2].tensor : nullptr;
  return (torch.*Function)(a[0].tensor, a[1].tensor, bias != nullptr ? &bias : nullptr,
                           g.stride.data(), g.stride.size(), g.padding.data(), g.padding.size(),
                           g.dilation.data(), g.dilation.size(), g.transposed,
                           g.output_padding.data(), g.output_padding.size(), g.groups, results);
}

// (gradient, input, weight, sizes of the bias?, the numbers, which gradients).
template <auto Function>
TorchError ConvolutionBackward(const Torch& torch, const TensordValue* a, Handle* results) {
  const Geometry g(a + 4);
  const bool has_bias = a[3].kind == TENSORD_LIST;
  const Sizes bias_sizes(has_bias ? a[3] : TensordValue{});
  const int64_t* sizes = bias_sizes.data();
  const Numbers<int32_t> mask(a[10]);
  return (torch.*Function)(a[0].tensor, a[1].tensor, a[2].tensor, has_bias ? &sizes : nullptr,
                           bias_sizes.size(), g.stride.data(), g.stride.size(), g.padding.data(),
                           g.padding.size(), g.dilation.data(), g.dilation.size(), g.transposed,
                           g.output_padding.data(), g.output_padding.size(), g.groups, mask.data(),
                           mask.size(), &results[0], &results[1], &results[2]);
}

template <auto Function>
bool Exists(const Torch& torch, const CallPlan&) {
  return torch.*Function != nullptr;
}

// Before 2.13 torch's function read the sizes of a bias from memory that it had freed
// (pytorch/pytorch#183764).
template <auto Function>
bool BackwardExists(const Torch& torch, const CallPlan& call) {
  const bool has_bias = call.arguments[3].value.kind == TENSORD_LIST;
  const bool is_new = torch.new_stable_ivalue != nullptr;  // which came with 2.13
  return torch.*Function != nullptr && (is_new || !has_bias);
}

template <auto Function>
constexpr DirectCall ProductRow(std::string_view op, int32_t device) {
  return {op, device, 3, true, Product<Function>, Exists<Function>};
}
template <auto Function>
constexpr DirectCall AddProductRow(std::string_view op, int32_t device) {
  return {op, device, 6, true, AddProduct<Function>, Exists<Function>};
}
template <auto Function>
constexpr DirectCall ConvolutionRow(int32_t device) {
  return {"aten::convolution", device, 9, false, Convolution<Function>, Exists<Function>};
}
template <auto Function>
constexpr DirectCall ConvolutionBackwardRow(int32_t device) {
  return {"aten::convolution_backward", device, 11, false, ConvolutionBackward<Function>,
          BackwardExists<Function>};
}

constexpr DirectCall kDirectCalls[] = {
    ProductRow<&Torch::cpu_mm_out>("aten::mm", kTorchCpu),
    ProductRow<&Torch::cpu_bmm_out>("aten::bmm", kTorchCpu),
    AddProductRow<&Torch::cpu_addmm_out>("aten::addmm", kTorchCpu),
    AddProductRow<&Torch::cpu_baddbmm_out>("aten::baddbmm", kTorchCpu),
    ProductRow<&Torch::cuda_mm_out>("aten::mm", kTorchCuda),
    ProductRow<&Torch::cuda_bmm_out>("aten::bmm", kTorchCuda),
    AddProductRow<&Torch::cuda_addmm_out>("aten::addmm", kTorchCuda),
    AddProductRow<&Torch::cuda_baddbmm_out>("aten::baddbmm", kTorchCuda),
    ConvolutionRow<&Torch::cpu_convolution>(kTorchCpu),
    ConvolutionRow<&Torch::cuda_convolution>(kTorchCuda),
    ConvolutionBackwardRow<&Torch::cpu_convolution_backward>(kTorchCpu),
    ConvolutionBackwardRow<&Torch::cuda_convolution_backward>(kTorchCuda),
};

// Tensors but for the two Scalars of the six-argument forms.
bool FitsOut(const CallPlan& call) {
  for (uint32_t i = 0; i < call.num_arguments; ++i) {
    const TensordKind kind = call.arguments[i].value.kind;
    const bool scalar = call.num_arguments == 6 && (i == 3 || i == 4);
    if (scalar ? kind != TENSORD_INT && kind != TENSORD_DOUBLE && kind != TENSORD_BOOL
               : kind != TENSORD_TENSOR) {
      return false;
    }
  }
  return true;
}

// As the table of stable signatures says, with lists that have room.
bool FitsSignature(const CallPlan& call) {
  return call.signature != nullptr && std::ranges::all_of(call.arguments, [](const auto& argument) {
           return argument.value.kind != TENSORD_LIST || argument.value.size <= kMostDims;
         });
}

}  // namespace

const DirectCall* FindDirectCall(int32_t device, const CallPlan& call) {
  for (const DirectCall& row : kDirectCalls) {
    if (row.op != call.op || row.device != device || row.num_arguments != call.num_arguments ||
        row.into_out != call.into_out) {
      continue;
    }
    return (call.into_out ? FitsOut(call) : FitsSignature(call)) ? &row : nullptr;
  }
  return nullptr;
}

bool IsThere(const Torch& torch, const CallPlan& call) { return call.direct->exists(torch, call); }

TorchError CallDirect(const Torch& torch, const DirectCall& direct, const TensordValue* arguments,
                      Handle* results) {
  return direct.call(torch, arguments, results);
}

}  // namespace tensord::runtime
