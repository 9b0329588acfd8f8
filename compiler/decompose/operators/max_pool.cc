// SPDX-License-Identifier: Apache-2.0
// Maximum over windows of an image, of one to three dimensions. Pointwise loops with the window
// unrolled.
//
// Eager's rules: the first of equal elements is the maximum, NaN is larger than any number, and of
// several the last counts. Padding is smaller than anything: where a window reaches into it, the
// nearest element of the window takes its place, a second time, which changes neither rule. So
// there are no conditions on loads, and a window of nothing but -inf points at its first element
// (eager's CUDA kernel for channels-last memory says the plane's first there, and adds the gradient
// to it).
#include "compiler/decompose/operators/max_pool.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "compiler/decompose/expressions.h"
#include "compiler/decompose/layout.h"

namespace tensord::compiler {

Expr PlaceForm::PlaceOf(std::span<const Expr> extents, std::span<const Element> elements) const {
  Expr place(0);
  for (size_t d = 0; d < elements.size(); ++d) {
    place = place * extents[d] + (in_window ? elements[d].number : elements[d].place);
  }
  return place;
}

std::vector<Expr> PlaceForm::ExtentsOf(std::span<const Axis> axes) const {
  std::vector<Expr> extents;
  for (const Axis& axis : axes) extents.push_back(in_window ? Expr(axis.kernel) : axis.size);
  return extents;
}

namespace {

// What several windows read is computed again for each, rather than stored and loaded, where that
// takes no more instructions than this.
constexpr int kMostAgain = 20;

// The elements of each dimension of the window at an index of the result.
using Walk = std::function<std::vector<std::vector<Element>>(Index)>;

// Calls visit(value, elements) for each element of the window at `index`, in eager's order.
template <typename F>
void ForEachValue(const Tensor& image, const Walk& walk, Recorder& ops, Index index,
                  const F& visit) {
  std::vector<Expr> at(index.begin(), index.end());
  ForEachElement(walk(index), [&](std::span<const Element> elements) {
    for (size_t d = 0; d < elements.size(); ++d) {
      at[at.size() - elements.size() + d] = elements[d].place;
    }
    visit(Elem{&ops, image.Load(ops, at)}, elements);
  });
}

// Larger than the maximum so far.
Elem Beats(Elem x, Elem maximum) {
  return IsFloating(x.dtype()) ? Or(x > maximum, IsNan(x)) : x > maximum;
}

Tensor MaximumOf(Builder& b, const Tensor& image, const Sizes& sizes, int64_t count,
                 const Walk& walk) {
  const std::vector<Tensor> reads(count, image);
  return b.Pointwise(image.dtype(), sizes, reads, 2 * static_cast<int>(count),
                     [=](Recorder& ops, Index index) {
                       std::optional<Elem> maximum;
                       ForEachValue(image, walk, ops, index, [&](Elem x, std::span<const Element>) {
                         maximum = maximum ? Maximum(*maximum, x) : x;
                       });
                       return maximum->value;
                     });
}

Tensor PlaceOfMaximum(Builder& b, const Tensor& image, const Sizes& sizes, int64_t count,
                      const Walk& walk, const PlaceForm& form, const std::vector<Expr>& extents) {
  const std::vector<Tensor> reads(count, image);
  return b.Pointwise(
      form.dtype, sizes, reads, 6 * static_cast<int>(count), [=](Recorder& ops, Index index) {
        std::optional<Elem> maximum, best;
        ForEachValue(image, walk, ops, index, [&](Elem x, std::span<const Element> elements) {
          // What a store would have rounded may be equal then.
          x = x.To(image.dtype());
          const Elem here{&ops, ops.Index(form.PlaceOf(extents, elements), form.compute)};
          best = maximum ? Select(Beats(x, *maximum), here, *best) : here;
          maximum = maximum ? Maximum(*maximum, x) : x;
        });
        return ops.Cast(best->value, form.dtype);
      });
}

// Results: the maxima and their places.
template <int dims, const PlaceForm& form>
Results MaxPool(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Axes axes, AxesOf(call, call.tensor("self").sizes(), dims));
  const bool overlaps =
      std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.Covering() > 1; });
  Tensor image = call.tensor("self");
  // Which eager refuses in its own words.
  if (image.dtype() == kBool) return absl::UnimplementedError("pooling of truth values");
  if (overlaps && !image.view() && image.cost() > kMostAgain) {
    image = b.RealizeAs(image, BufferStrides(call.argument_type("self")));
  }
  const Walk walk = [axes](Index index) {
    std::vector<std::vector<Element>> elements(axes.size());
    for (size_t d = 0; d < axes.size(); ++d) {
      for (int64_t k = 0; k < axes[d].kernel; ++k) {
        elements[d].push_back(ElementOf(axes[d], index[index.size() - axes.size() + d], k));
      }
    }
    return elements;
  };
  const int64_t count = ElementsOfWindow(axes);
  const Sizes sizes = WindowSizes(axes, image.sizes());
  return std::vector<Tensor>{
      MaximumOf(b, image, sizes, count, walk),
      PlaceOfMaximum(b, image, sizes, count, walk, form, form.ExtentsOf(axes))};
}

template <int dims>
Results AdaptiveMaxPool(Builder& b, const Call& call) {
  // Which eager refuses in its own words.
  if (!IsFloating(call.tensor("self").dtype()))
    return absl::UnimplementedError("adaptive pooling of integers");
  const Tensor image = RealizeArgumentIfExpensive(b, call, "self");
  TENSORD_ASSIGN_OR_RETURN(const Ranges ranges, EvenRangesOf(call, image.sizes(), dims));
  const Walk walk = [dimensions = ranges.dimensions](Index index) {
    return ElementsOf(dimensions, index);
  };
  const std::vector<Expr> extents(image.sizes().end() - dims, image.sizes().end());
  return std::vector<Tensor>{
      MaximumOf(b, image, ranges.sizes, ranges.elements, walk),
      PlaceOfMaximum(b, image, ranges.sizes, ranges.elements, walk, kIndex, extents)};
}

const Lowering kMaxPoolLowerings[] = {
    {"aten::max_pool2d_with_indices", MaxPool<2, kIndex>},
    {"aten::max_pool3d_with_indices", MaxPool<3, kIndex>},
    {"aten::adaptive_max_pool2d", AdaptiveMaxPool<2>},
    {"aten::adaptive_max_pool3d", AdaptiveMaxPool<3>},
    // What a training step saves for backward instead of indices: a byte.
    {"tensord::max_pool2d_with_offsets", MaxPool<2, kOffset>},
};

}  // namespace

std::span<const Lowering> MaxPoolLowerings() { return kMaxPoolLowerings; }

}  // namespace tensord::compiler
