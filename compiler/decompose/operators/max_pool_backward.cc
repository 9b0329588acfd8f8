// SPDX-License-Identifier: Apache-2.0
// The backward step of a max pooling of two dimensions: an element of the image's gradient reads
// the windows that cover it, so nothing is added atomically.
#include <algorithm>
#include <array>
#include <optional>

#include "compiler/decompose/expressions.h"
#include "compiler/decompose/layout.h"
#include "compiler/decompose/operators/max_pool.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

// The k-th last window that may cover an element, and the element's number in it, where all
// conditions hold.
struct Window {
  Expr window, number;
  std::vector<std::pair<Op, Expr>> conditions;  // of the expression against 0
};

Window WindowOf(const Axis& axis, const Expr& element, int64_t k) {
  const Expr place = element + axis.padding, stride(axis.stride), step(axis.dilation);
  Window w{.window = sym::FloorDiv(place, stride) - k};
  const Expr distance = sym::Mod(place, stride) + k * axis.stride;
  w.number = sym::FloorDiv(distance, step);
  if (!sym::ProvablyNonNegative(w.window)) w.conditions.emplace_back(Op::k_ge, w.window);
  if (!sym::ProvablyLess(w.window, axis.windows)) {
    w.conditions.emplace_back(Op::k_lt, w.window - axis.windows);
  }
  if (!sym::ProvablyLess(distance, Expr(axis.Span()))) {
    w.conditions.emplace_back(Op::k_lt, distance - axis.Span());
  }
  if (axis.dilation > 1) w.conditions.emplace_back(Op::k_eq, sym::Mod(distance, step));
  return w;
}

Value HoldAll(Recorder& ops, const Window& row, const Window& column) {
  Value all = ops.ConstantInt(1, kBool);
  bool is_first = true;
  for (const Window* w : {&row, &column}) {
    for (const auto& [op, e] : w->conditions) {
      const Value holds = ops.Compute(op, {ops.Index(e), ops.ConstantInt(0, kInt64)});
      all = is_first ? holds : ops.Compute(Op::k_logical_and, {all, holds});
      is_first = false;
    }
  }
  return all;
}

Tensor GradientOf(Builder& b, const Axes& axes, const Tensor& grad, const Tensor& places,
                  const Sizes& sizes, const PlaceForm& form) {
  const int64_t down = axes[0].Covering(), across = axes[1].Covering();
  std::vector<Tensor> reads;
  for (int64_t k = 0; k < down * across; ++k) reads.insert(reads.end(), {grad, places});
  const int cost = 6 * static_cast<int>(down * across);
  const std::vector<Expr> extents = form.ExtentsOf(axes);
  return b.Pointwise(grad.dtype(), sizes, reads, cost, [=](Recorder& ops, Index index) {
    std::vector<Expr> at(index.begin(), index.end());
    const Expr row = index[index.size() - 2], column = index.back();
    std::optional<Value> sum;
    for (int64_t i = down - 1; i >= 0; --i) {
      const Window r = WindowOf(axes[0], row, i);
      for (int64_t j = across - 1; j >= 0; --j) {
        const Window c = WindowOf(axes[1], column, j);
        at[at.size() - 2] = r.window;
        at.back() = c.window;
        const Value none = ops.Constant(0, ComputeType(grad.dtype()));
        const auto from_window = [&] {
          const std::array elements = {Element{r.number, row}, Element{c.number, column}};
          const Value here = ops.Index(form.PlaceOf(extents, elements), form.compute);
          const Value points = ops.Cast(places.Load(ops, at), form.compute);
          const Value g = grad.Load(ops, at);
          return ops.Where(ops.Compute(Op::k_eq, {points, here}), g, none);
        };
        const bool always = r.conditions.empty() && c.conditions.empty();
        const Value part =
            always ? from_window() : ops.Masked(HoldAll(ops, r, c), from_window, none);
        sum = sum ? ops.Add(*sum, part) : part;
      }
    }
    return *sum;
  });
}

// A tensor of windows; Unimplemented for symbolic sizes that only the job's guards hold equal.
absl::Status CheckWindows(const char* what, const Tensor& t, const Sizes& sizes) {
  const bool has_sizes =
      t.sizes().size() == sizes.size() &&
      std::equal(sizes.begin(), sizes.end(), t.sizes().begin(),
                 [](const Expr& a, const Expr& b) { return sym::MayBeEqual(a, b); });
  const bool constant =
      std::all_of(sizes.begin(), sizes.end(), [](const Expr& size) { return size.IsConstant(); });
  absl::Status status = CheckSizes(what, t, sizes);
  if (status.ok() || !has_sizes || constant) return status;
  return absl::UnimplementedError("sizes that are equal by guards");
}

// The step back to an image of these sizes; `places`: the argument with the maxima's places.
Results Backward(Builder& b, const Call& call, const PlaceForm& form, std::string_view places,
                 const Sizes& sizes) {
  TENSORD_ASSIGN_OR_RETURN(const Axes axes, AxesOf(call, sizes, 2));
  const Tensor grad = RealizeArgumentIfExpensive(b, call, "grad_output"),
               at = RealizeArgumentIfExpensive(b, call, places);
  if (at.dtype() != form.dtype) return absl::InvalidArgumentError("places of another type");
  const Sizes expected = WindowSizes(axes, sizes);
  TENSORD_RETURN_IF_ERROR(CheckWindows("the gradient", grad, expected));
  TENSORD_RETURN_IF_ERROR(CheckWindows("the places", at, expected));
  return std::vector<Tensor>{GradientOf(b, axes, grad, at, sizes, form)};
}

// Of `self` only the sizes count.
Results IndicesBackward(Builder& b, const Call& call) {
  return Backward(b, call, kIndex, "indices", call.tensor("self").sizes());
}

// `sizes`: rows and columns of the image. What `channels_last` says the declared strides say too.
Results OffsetsBackward(Builder& b, const Call& call) {
  const Tensor grad = call.tensor("grad_output");
  const Sizes image = call.integers("sizes");
  if (image.size() != 2 || grad.rank() < 2) return absl::InvalidArgumentError("needs two sizes");
  Sizes sizes = grad.sizes();
  sizes.resize(sizes.size() - 2);
  sizes.insert(sizes.end(), image.begin(), image.end());
  return Backward(b, call, kOffset, "offsets", sizes);
}

const Lowering kMaxPoolBackwardLowerings[] = {
    {"aten::max_pool2d_with_indices_backward", IndicesBackward, v1::DEVICE_TYPE_CUDA},
    {"tensord::max_pool2d_offsets_backward", OffsetsBackward},
};

}  // namespace

std::span<const Lowering> MaxPoolBackwardLowerings() { return kMaxPoolBackwardLowerings; }

}  // namespace tensord::compiler
