// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/operators/windows.h"

#include <algorithm>
#include <optional>

#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

// A number for each dimension, which may be given as one for all; nothing when symbolic.
std::optional<std::vector<int64_t>> NumbersOf(const Call& call, std::string_view name, int dims) {
  const Sizes given = call.integers(name);
  if (given.size() != 1 && static_cast<int>(given.size()) != dims) return std::nullopt;
  std::vector<int64_t> numbers;
  for (int d = 0; d < dims; ++d) {
    const auto number = given[given.size() == 1 ? 0 : d].AsConstant();
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

absl::StatusOr<Axis> AxisOf(Axis axis, const Expr& size, bool ceil_mode) {
  constexpr int64_t kMost = int64_t{1} << 30;  // products of two do not overflow
  axis.size = size;
  if (std::max({axis.kernel, axis.stride, axis.padding, axis.dilation}) > kMost) {
    return absl::InvalidArgumentError("a number of a pooling's windows is too large");
  }
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

// Windows that share an image of `size` elements evenly.
RangeOf EvenRanges(int64_t size, int64_t windows) {
  int64_t longest = 0;
  for (int64_t w = 0; w < windows; ++w) {
    longest = std::max(longest, sym::CeilDiv((w + 1) * size, windows) - w * size / windows);
  }
  return [size, windows, longest](const Expr& window) {
    const Expr first = sym::FloorDiv(window * size, Expr(windows));
    const Expr end = sym::CeilDiv((window + 1) * size, Expr(windows));
    return Range{first, end, longest, end - first};
  };
}

}  // namespace

absl::StatusOr<Axes> AxesOf(const Call& call, const Sizes& sizes, int dims) {
  const int rank = static_cast<int>(sizes.size());
  if (rank != dims + 1 && rank != dims + 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("pools ", dims + 1, " or ", dims + 2, " dimensions"));
  }
  const auto kernel = NumbersOf(call, "kernel_size", dims),
             padding = NumbersOf(call, "padding", dims),
             dilation = call.takes("dilation") ? NumbersOf(call, "dilation", dims)
                                               : std::vector<int64_t>(dims, 1);
  const auto stride = call.integers("stride").empty() ? kernel : NumbersOf(call, "stride", dims);
  if (!kernel || !stride || !padding || !dilation) {
    return absl::UnimplementedError("a symbolic window");
  }
  Axes axes;
  int64_t elements = 1, covering = 1;
  for (int d = 0; d < dims; ++d) {
    TENSORD_ASSIGN_OR_RETURN(
        Axis axis, AxisOf({(*kernel)[d], (*stride)[d], (*padding)[d], (*dilation)[d], {}, {}},
                          sizes[rank - dims + d], call.boolean("ceil_mode")));
    elements *= axis.kernel;
    covering *= axis.Covering();
    if (elements > kLargestWindow || covering > kLargestWindow) {
      return absl::UnimplementedError("a large window");
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

int64_t ElementsOfWindow(std::span<const Axis> axes) {
  int64_t elements = 1;
  for (const Axis& axis : axes) elements *= axis.kernel;
  return elements;
}

Sizes WindowSizes(std::span<const Axis> axes, Sizes image) {
  for (size_t d = 0; d < axes.size(); ++d) {
    image[image.size() - axes.size() + d] = axes[d].windows;
  }
  return image;
}

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

void ForEachElement(std::span<const std::vector<Element>> dimensions,
                    const std::function<void(std::span<const Element>)>& visit) {
  std::vector<size_t> at(dimensions.size(), 0);
  std::vector<Element> elements(dimensions.size());
  size_t count = 1;
  for (const auto& list : dimensions) count *= list.size();
  for (size_t i = 0; i < count; ++i) {
    for (size_t d = 0; d < at.size(); ++d) elements[d] = dimensions[d][at[d]];
    visit(elements);
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < dimensions[d].size()) break;
      at[d] = 0;
    }
  }
}

absl::StatusOr<Ranges> EvenRangesOf(const Call& call, const Sizes& image, int dims) {
  const Sizes wanted = call.integers("output_size");
  const int rank = static_cast<int>(image.size());
  if (static_cast<int>(wanted.size()) != dims || (rank != dims + 1 && rank != dims + 2)) {
    return absl::InvalidArgumentError("needs a size for each dimension of the image");
  }
  Ranges ranges{.sizes = image};
  for (int d = 0; d < dims; ++d) {
    const auto size = image[rank - dims + d].AsConstant(), windows = wanted[d].AsConstant();
    if (!size || !windows) return absl::UnimplementedError("symbolic sizes");
    if (*windows < 0) return absl::InvalidArgumentError("a size is negative");
    if (*size == 0 || *windows == 0) return absl::UnimplementedError("an empty image");
    ranges.dimensions.push_back(EvenRanges(*size, *windows));
    ranges.is_regular = ranges.is_regular && *size % *windows == 0;
    ranges.sizes[rank - dims + d] = Expr(*windows);
    ranges.elements *= ranges.dimensions.back()(Expr(0)).longest;
    if (ranges.elements > kLargestWindow) return absl::UnimplementedError("a large window");
  }
  return ranges;
}

std::vector<std::vector<Element>> ElementsOf(const std::vector<RangeOf>& dimensions, Index index) {
  std::vector<std::vector<Element>> elements;
  const size_t skip = index.size() - dimensions.size();
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const Range range = dimensions[d](index[skip + d]);
    std::vector<Element>& list = elements.emplace_back();
    for (int64_t k = 0; k < range.longest; ++k) {
      Expr place = range.first + k;
      if (!sym::ProvablyLess(place, range.end)) place = sym::Min(place, range.end - 1);
      list.push_back({Expr(k), place});
    }
  }
  return elements;
}

}  // namespace tensord::compiler
