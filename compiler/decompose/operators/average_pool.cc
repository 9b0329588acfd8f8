// SPDX-License-Identifier: Apache-2.0
// Averages over windows of an image: at regular distances, or as many as are wanted ("adaptive").
// Both are pointwise loops with the window unrolled, in eager's order. torch decomposes what takes
// the whole image as one window to a mean.
#include <algorithm>
#include <optional>

#include "compiler/decompose/expressions.h"
#include "compiler/decompose/operators/windows.h"
#include "compiler/graph/layout.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

RangeOf RegularRanges(const Axis& axis, bool counts_padding) {
  return [axis, counts_padding](const Expr& window) {
    const Expr start = window * axis.stride - axis.padding;
    const Expr first = sym::Max(start, Expr(0)), stop = start + axis.kernel;
    const Expr end = sym::Min(stop, axis.size);
    const Expr with_padding = sym::Min(stop, axis.size + axis.padding) - start;
    return Range{first, end, axis.kernel, counts_padding ? with_padding : end - first};
  };
}

// ---- Averages

// Results for which the library is not worth a call.
constexpr int64_t kFewResults = 4096;

// `divisor`: instead of the number of elements.
Tensor AverageOf(Builder& b, const Tensor& image, const Ranges& ranges,
                 std::optional<double> divisor) {
  const std::vector<Tensor> reads(ranges.elements, image);
  const auto body = [=](Recorder& ops, Index index) {
    const size_t skip = index.size() - ranges.dimensions.size();
    std::vector<Range> windows;
    for (size_t d = 0; d < ranges.dimensions.size(); ++d) {
      windows.push_back(ranges.dimensions[d](index[skip + d]));
    }
    std::vector<Expr> at(index.begin(), index.end());
    std::optional<Elem> sum;
    ForEachElement(ElementsOf(ranges.dimensions, index), [&](std::span<const Element> elements) {
      std::vector<Value> within;
      for (size_t d = 0; d < elements.size(); ++d) {
        at[skip + d] = elements[d].place;
        const Expr place = windows[d].first + elements[d].number;
        if (sym::ProvablyLess(place, windows[d].end)) continue;
        const Value left = ops.Index(place - windows[d].end);
        within.push_back(ops.Compute(Op::k_lt, {left, ops.ConstantInt(0, kInt64)}));
      }
      Value x = ops.Cast(image.Load(ops, at), ComputeType(image.dtype()));
      if (!within.empty()) x = ops.Where(AllOf(ops, within), x, ops.Constant(0, x.dtype));
      sum = sum ? *sum + Elem{&ops, x} : Elem{&ops, x};
    });
    if (divisor) return (*sum / *divisor).value;
    Expr elements(1);
    for (const Range& window : windows) elements *= window.divisor;
    return (*sum / Elem{&ops, ops.Index(elements, sum->dtype())}).value;
  };
  return b.Pointwise(image.dtype(), ranges.sizes, reads, 2 * static_cast<int>(ranges.elements) + 4,
                     body);
}

template <int dims>
Results AveragePool(Builder& b, const Call& call) {
  const Tensor image = RealizeArgumentIfExpensive(b, call, "self");
  if (!IsFloating(image.dtype())) return absl::UnimplementedError("an average of integers");
  TENSORD_ASSIGN_OR_RETURN(const Axes axes, AxesOf(call, image.sizes(), dims));
  Ranges ranges{.sizes = WindowSizes(axes, image.sizes()), .elements = ElementsOfWindow(axes)};
  for (const Axis& axis : axes) {
    ranges.dimensions.push_back(RegularRanges(axis, call.boolean("count_include_pad")));
  }
  std::optional<double> divisor;
  if (call.has("divisor_override")) {
    divisor = static_cast<double>(call.constant("divisor_override"));
    if (*divisor == 0) return absl::InvalidArgumentError("divides by zero");
  }
  return std::vector<Tensor>{AverageOf(b, image, ranges, divisor)};
}

template <int dims>
Results AdaptiveAveragePool(Builder& b, const Call& call) {
  const Tensor image = RealizeArgumentIfExpensive(b, call, "self");
  if (!IsFloating(image.dtype())) return absl::UnimplementedError("an average of integers");
  TENSORD_ASSIGN_OR_RETURN(const Ranges ranges, EvenRangesOf(call, image.sizes(), dims));
  // Along rows every lane of a vector has a window of another size: the library's loop over single
  // elements is faster.
  if (b.device() == v1::DEVICE_TYPE_CPU && !ranges.is_regular &&
      ElementsHint(call.result()) > kFewResults &&
      call.argument_type("self").strides.back().Is(1)) {
    return absl::UnimplementedError("windows of several sizes along rows");
  }
  return std::vector<Tensor>{AverageOf(b, image, ranges, std::nullopt)};
}

const Lowering kAveragePoolLowerings[] = {
    {"aten::avg_pool2d", AveragePool<2>},
    {"aten::avg_pool3d", AveragePool<3>},
    {"aten::_adaptive_avg_pool2d", AdaptiveAveragePool<2>},
    {"aten::_adaptive_avg_pool3d", AdaptiveAveragePool<3>},
};

}  // namespace

std::span<const Lowering> AveragePoolLowerings() { return kAveragePoolLowerings; }

}  // namespace tensord::compiler
