// SPDX-License-Identifier: Apache-2.0
// Windows of a pooling along one dimension of an image, and walks over their elements with the
// window unrolled.
#ifndef TENSORD_COMPILER_DECOMPOSE_OPERATORS_WINDOWS_H_
#define TENSORD_COMPILER_DECOMPOSE_OPERATORS_WINDOWS_H_

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler/decompose/lowering.h"

namespace tensord::compiler {

// Windows of more elements, and backward steps that read more windows, are the library's.
inline constexpr int64_t kLargestWindow = 27;

// One dimension of the image, with windows at regular distances.
struct Axis {
  int64_t kernel, stride, padding, dilation;
  Expr size;     // of the image
  Expr windows;  // how many there are

  int64_t Span() const { return (kernel - 1) * dilation + 1; }
  // The most windows that cover one element.
  int64_t Covering() const { return (Span() + stride - 1) / stride; }
};
using Axes = std::vector<Axis>;

// The windows of the last `dims` dimensions of an image of these sizes, which may have one or two
// dimensions before them, as the arguments kernel_size, stride (the kernel's where it is left out),
// padding, dilation (where the operator has one) and ceil_mode say. Unimplemented for symbolic
// windows and for windows of more than kLargestWindow elements.
absl::StatusOr<Axes> AxesOf(const Call& call, const Sizes& sizes, int dims);

// How many elements a window has.
int64_t ElementsOfWindow(std::span<const Axis> axes);

// The sizes of a tensor with an element a window.
Sizes WindowSizes(std::span<const Axis> axes, Sizes image);

// Element `k` of a window: its number in the window, and its place in the image.
struct Element {
  Expr number, place;
};

// Element `k` of window `window`, or where that is padding the nearest element of the window that
// is not.
Element ElementOf(const Axis& axis, const Expr& window, int64_t k);

// Calls visit(one element of each dimension) for all their combinations, the last dimension's
// fastest.
void ForEachElement(std::span<const std::vector<Element>> dimensions,
                    const std::function<void(std::span<const Element>)>& visit);

// ---- Windows of different sizes

// The elements [first, end) of the image that a window has, of at most `longest`, and by what the
// sum of a window is divided.
struct Range {
  Expr first, end;
  int64_t longest;
  Expr divisor;
};

// All ranges of one dimension, by the window's number.
using RangeOf = std::function<Range(const Expr& window)>;

struct Ranges {
  std::vector<RangeOf> dimensions;
  Sizes sizes;             // of a tensor with an element a window
  int64_t elements = 1;    // of the longest window, in all dimensions
  bool is_regular = true;  // all windows of a dimension have one size
};

// As many windows as the argument output_size says, which share the image's last `dims` dimensions
// evenly. Unimplemented for symbolic sizes, for none, and for windows of more than kLargestWindow
// elements.
absl::StatusOr<Ranges> EvenRangesOf(const Call& call, const Sizes& image, int dims);

// The elements of the window at `index` in each dimension. Where a window has fewer than the
// longest one, its last element stands for those that it lacks.
std::vector<std::vector<Element>> ElementsOf(const std::vector<RangeOf>& dimensions, Index index);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_OPERATORS_WINDOWS_H_
