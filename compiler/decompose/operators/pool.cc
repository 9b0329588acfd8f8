// SPDX-License-Identifier: Apache-2.0
// Maximum over windows of an image, and its backward step. Both are pointwise loops with the window
// unrolled: a result reads its window, and an element of the backward step's result the windows
// that cover it, so nothing is added atomically.
//
// Eager's rules: the first of equal elements is the maximum, NaN is larger than any number, and of
// several the last counts. Padding is smaller than anything: where a window reaches into it, the
// nearest element of the window takes its place, a second time, which changes neither rule. So
// there are no conditions on loads, and a window of nothing but -inf points at its first element
// (eager's CUDA kernel for channels-last memory says the plane's first there, and adds the gradient
// to it).
#include <algorithm>
#include <array>
#include <optional>

#include "compiler/decompose/expressions.h"
#include "compiler/decompose/layout.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

// Windows of more elements, and backward steps that read more windows, are the library's.
constexpr int64_t kLargestWindow = 25;

// What several windows read is computed again for each, rather than stored and loaded, where that
// takes no more instructions than this.
constexpr int kMostAgain = 20;

constexpr DType kOffsetType = v1::DTYPE_UINT8;

// One dimension of the image.
struct Axis {
  int64_t kernel, stride, padding, dilation;
  Expr size;     // of the image
  Expr windows;  // how many there are

  int64_t Span() const { return (kernel - 1) * dilation + 1; }
  // The most windows that cover one element.
  int64_t Covering() const { return (Span() + stride - 1) / stride; }
};

struct Pool {
  Axis rows, columns;

  int64_t elements() const { return rows.kernel * columns.kernel; }
};

// How the place of a window's maximum is said.
struct OffsetForm {
  DType dtype;
  DType compute;
  // Of the element of the image at (row, column), and at (i, j) within the window.
  Expr (*index)(const Pool& pool, const Expr& row, const Expr& column, const Expr& i,
                const Expr& j);
};
// In the plane of the image, as eager has it.
constexpr OffsetForm kIndex = {
    kInt64, kInt64,
    [](const Pool& pool, const Expr& row, const Expr& column, const Expr&, const Expr&) {
      return row * pool.columns.size + column;
    }};
// In the window.
constexpr OffsetForm kOffset = {kOffsetType, kInt32,
                                [](const Pool& pool, const Expr&, const Expr&, const Expr& i,
                                   const Expr& j) { return i * pool.columns.kernel + j; }};

// ---- Arguments

// A pair that may be given as one number; nothing when it is left out or symbolic.
std::optional<std::array<int64_t, 2>> PairOf(const Call& call, std::string_view name) {
  const Sizes given = call.integers(name);
  if (given.empty() || given.size() > 2) return std::nullopt;
  const auto first = given.front().AsConstant(), second = given.back().AsConstant();
  if (!first || !second) return std::nullopt;
  return std::array{*first, *second};
}

absl::StatusOr<Axis> AxisOf(Axis axis, const Expr& size, bool ceil_mode) {
  axis.size = size;
  if (axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1 || axis.padding < 0 ||
      2 * axis.padding > axis.Span()) {
    return absl::InvalidArgumentError("no window of a pooling is like that");
  }
  // Then every window has an element of the image.
  if (!sym::ProvablyLess(Expr(axis.dilation - 1), size)) {
    return absl::UnimplementedError("windows that may have no element of the image");
  }
  const Expr room = size + 2 * axis.padding - axis.Span();
  axis.windows = sym::FloorDiv(room, Expr(axis.stride)) + 1;
  if (ceil_mode) {
    if (!size.IsConstant()) return absl::UnimplementedError("a symbolic size, rounded up");
    axis.windows = sym::CeilDiv(room, Expr(axis.stride)) + 1;
    // The last window begins within the image or the padding before it.
    const Expr last = (axis.windows - 1) * axis.stride - axis.padding;
    if (!sym::ProvablyLess(last, size)) axis.windows = axis.windows - 1;
  }
  return axis;
}

// The pooling of an image of these sizes. The stride is the kernel's where it is left out.
absl::StatusOr<Pool> PoolOf(const Call& call, const Sizes& sizes) {
  if (sizes.size() != 3 && sizes.size() != 4) {
    return absl::InvalidArgumentError("pools 3 or 4 dimensions");
  }
  const auto kernel = PairOf(call, "kernel_size"), padding = PairOf(call, "padding"),
             dilation = PairOf(call, "dilation");
  const auto stride = call.integers("stride").empty() ? kernel : PairOf(call, "stride");
  if (!kernel || !stride || !padding || !dilation) {
    return absl::UnimplementedError("a symbolic window");
  }
  const size_t rank = sizes.size();
  Pool pool;
  for (const int d : {0, 1}) {
    Axis& axis = d == 0 ? pool.rows : pool.columns;
    TENSORD_ASSIGN_OR_RETURN(
        axis, AxisOf({(*kernel)[d], (*stride)[d], (*padding)[d], (*dilation)[d], {}, {}},
                     sizes[rank - 2 + d], call.boolean("ceil_mode")));
  }
  if (pool.elements() > kLargestWindow ||
      pool.rows.Covering() * pool.columns.Covering() > kLargestWindow) {
    return absl::UnimplementedError("a large window");
  }
  return pool;
}

Sizes ResultSizes(const Pool& pool, Sizes sizes) {
  sizes[sizes.size() - 2] = pool.rows.windows;
  sizes[sizes.size() - 1] = pool.columns.windows;
  return sizes;
}

// ---- Forward

// Element `k` of window `window`, or where that is padding the nearest element of the window that
// is not: its number in the window, and its place in the image.
struct Element {
  Expr number, place;
};

Element ElementOf(const Axis& axis, const Expr& window, int64_t k) {
  const Expr start = window * axis.stride - axis.padding, step(axis.dilation);
  Expr number(k);
  if (!sym::ProvablyNonNegative(start + k * axis.dilation)) {
    number = sym::Max(number, sym::CeilDiv(-start, step));
  }
  if (!sym::ProvablyLess(start + k * axis.dilation, axis.size)) {
    number = sym::Min(number, sym::FloorDiv(axis.size - 1 - start, step));
  }
  return {number, start + number * step};
}

// Calls visit(value, row, column) for each element of a window, in eager's order.
template <typename F>
void ForEachElement(const Pool& pool, const Tensor& image, Recorder& ops, Index index,
                    const F& visit) {
  std::vector<Expr> at(index.begin(), index.end());
  Expr &row = at[at.size() - 2], &column = at[at.size() - 1];
  for (int64_t i = 0; i < pool.rows.kernel; ++i) {
    const Element r = ElementOf(pool.rows, index[index.size() - 2], i);
    for (int64_t j = 0; j < pool.columns.kernel; ++j) {
      const Element c = ElementOf(pool.columns, index.back(), j);
      row = r.place;
      column = c.place;
      visit(Elem{&ops, image.Load(ops, at)}, r, c);
    }
  }
}

// Larger than the maximum so far.
Elem Beats(Elem x, Elem maximum) {
  return IsFloating(x.dtype()) ? Or(x > maximum, IsNan(x)) : x > maximum;
}

Tensor MaximumOf(Builder& b, const Pool& pool, const Tensor& image, const Sizes& sizes) {
  const std::vector<Tensor> reads(pool.elements(), image);
  return b.Pointwise(image.dtype(), sizes, reads, 2 * static_cast<int>(pool.elements()),
                     [=](Recorder& ops, Index index) {
                       std::optional<Elem> maximum;
                       ForEachElement(pool, image, ops, index,
                                      [&](Elem x, const Element&, const Element&) {
                                        maximum = maximum ? Maximum(*maximum, x) : x;
                                      });
                       return maximum->value;
                     });
}

Tensor PlaceOfMaximum(Builder& b, const Pool& pool, const Tensor& image, const Sizes& sizes,
                      const OffsetForm& form) {
  const std::vector<Tensor> reads(pool.elements(), image);
  return b.Pointwise(
      form.dtype, sizes, reads, 6 * static_cast<int>(pool.elements()),
      [=](Recorder& ops, Index index) {
        std::optional<Elem> maximum, best;
        ForEachElement(pool, image, ops, index, [&](Elem x, const Element& r, const Element& c) {
          // What a store would have rounded may be equal then.
          x = x.To(image.dtype());
          const Elem here{&ops, ops.Index(form.index(pool, r.place, c.place, r.number, c.number),
                                          form.compute)};
          best = maximum ? Select(Beats(x, *maximum), here, *best) : here;
          maximum = maximum ? Maximum(*maximum, x) : x;
        });
        return ops.Cast(best->value, form.dtype);
      });
}

// Results: the maxima and their places.
template <const OffsetForm& form>
Results MaxPool(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Pool pool, PoolOf(call, call.tensor("self").sizes()));
  const bool overlaps = pool.rows.Covering() * pool.columns.Covering() > 1;
  Tensor image = call.tensor("self");
  if (overlaps && !image.view() && image.cost() > kMostAgain) {
    image = b.RealizeAs(image, BufferStrides(call.argument_type("self")));
  }
  const Sizes sizes = ResultSizes(pool, image.sizes());
  return std::vector<Tensor>{MaximumOf(b, pool, image, sizes),
                             PlaceOfMaximum(b, pool, image, sizes, form)};
}

// ---- Backward

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

Tensor GradientOf(Builder& b, const Pool& pool, const Tensor& grad, const Tensor& places,
                  const Sizes& sizes, const OffsetForm& form) {
  const int64_t down = pool.rows.Covering(), across = pool.columns.Covering();
  std::vector<Tensor> reads;
  for (int64_t k = 0; k < down * across; ++k) reads.insert(reads.end(), {grad, places});
  const int cost = 6 * static_cast<int>(down * across);
  return b.Pointwise(grad.dtype(), sizes, reads, cost, [=](Recorder& ops, Index index) {
    std::vector<Expr> at(index.begin(), index.end());
    const Expr row = index[index.size() - 2], column = index.back();
    std::optional<Value> sum;
    for (int64_t i = down - 1; i >= 0; --i) {
      const Window r = WindowOf(pool.rows, row, i);
      for (int64_t j = across - 1; j >= 0; --j) {
        const Window c = WindowOf(pool.columns, column, j);
        at[at.size() - 2] = r.window;
        at.back() = c.window;
        const Value none = ops.Constant(0, ComputeType(grad.dtype()));
        const auto from_window = [&] {
          const Value here =
              ops.Index(form.index(pool, row, column, r.number, c.number), form.compute);
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
  const bool alike =
      t.sizes().size() == sizes.size() &&
      std::equal(sizes.begin(), sizes.end(), t.sizes().begin(),
                 [](const Expr& a, const Expr& b) { return sym::MayBeEqual(a, b); });
  const bool constant =
      std::all_of(sizes.begin(), sizes.end(), [](const Expr& size) { return size.IsConstant(); });
  absl::Status status = CheckSizes(what, t, sizes);
  if (status.ok() || !alike || constant) return status;
  return absl::UnimplementedError("sizes that are equal by guards");
}

// The step back to an image of these sizes; `places`: the argument with the maxima's places.
Results Backward(Builder& b, const Call& call, const OffsetForm& form, std::string_view places,
                 const Sizes& sizes) {
  TENSORD_ASSIGN_OR_RETURN(const Pool pool, PoolOf(call, sizes));
  const Tensor grad = RealizeArgumentIfExpensive(b, call, "grad_output"),
               at = RealizeArgumentIfExpensive(b, call, places);
  if (at.dtype() != form.dtype) return absl::InvalidArgumentError("places of another type");
  const Sizes expected = ResultSizes(pool, sizes);
  TENSORD_RETURN_IF_ERROR(CheckWindows("the gradient", grad, expected));
  TENSORD_RETURN_IF_ERROR(CheckWindows("the places", at, expected));
  return std::vector<Tensor>{GradientOf(b, pool, grad, at, sizes, form)};
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

const Lowering kLowerings[] = {
    {"aten::max_pool2d_with_indices", MaxPool<kIndex>},
    {"aten::max_pool2d_with_indices_backward", IndicesBackward, v1::DEVICE_TYPE_CUDA},
    // What a training step saves for backward instead of indices: a byte.
    {"tensord::max_pool2d_with_offsets", MaxPool<kOffset>},
    {"tensord::max_pool2d_offsets_backward", OffsetsBackward},
};

}  // namespace

std::span<const Lowering> PoolLowerings() { return kLowerings; }

}  // namespace tensord::compiler
