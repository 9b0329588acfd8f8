// SPDX-License-Identifier: Apache-2.0
// Images and volumes read at places that a grid of coordinates names, between -1 and 1 from end to
// end: pointwise loops over the results, with the elements around a place unrolled. By torch's
// formulas.
#include <array>

#include "compiler/decompose/expressions.h"
#include "compiler/decompose/operators/indexing.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

enum class Interpolation { kLinear = 0, kNearest = 1, kCubic = 2 };
enum class Padding { kZeros = 0, kBorder = 1, kReflection = 2 };

// Of the cubic kernel of convolution, torch's choice.
constexpr double kSharpness = -0.75;

struct Sampling {
  Interpolation interpolation;
  Padding padding;
  bool align_corners;  // -1 and 1 are the centres of the outermost elements, not their edges
  // What becomes of NaN and infinities differs between eager's kernels.
  bool nan_is_last;      // NaN is clamped to the last element, not the first
  bool outside_is_none;  // elements out of range add nothing, not 0 times their weight
};

// One dimension of the image: its size, as an expression and as a number of the compute type.
struct GridAxis {
  Expr size;
  Elem length;
};

// An element of one dimension that takes part, and how much.
struct Tap {
  Elem place;   // a whole number, in or out of range
  Elem weight;  // none of the nearest element
};

Elem Floor(Elem x) { return Apply(Op::k_floor, x); }

// The coordinate as a place between elements.
Elem PlaceOf(const Sampling& s, Elem coordinate, const GridAxis& axis) {
  if (s.align_corners) return (coordinate + 1) * 0.5 * (axis.length - 1);
  return ((coordinate + 1) * axis.length - 1) * 0.5;
}

// Reflected at both ends until it lies between them: at the outermost elements, or their edges.
Elem Reflected(const Sampling& s, Elem place, const GridAxis& axis) {
  const Elem span = s.align_corners ? axis.length - 1 : axis.length;
  const double first = s.align_corners ? 0 : -0.5;
  const Elem distance = Abs(place - first);
  const Elem rest = Apply(Op::k_fmod, distance, span), flips = Floor(distance / span);
  const Elem is_even = Equal(flips - Floor(flips * 0.5) * 2, 0);
  const Elem inside = Select(is_even, rest + first, span - rest + first);
  return s.align_corners ? Select(Equal(span, 0), 0.0, inside) : inside;
}

Elem Padded(const Sampling& s, Elem place, const GridAxis& axis) {
  if (s.padding == Padding::kZeros) return place;
  if (s.padding == Padding::kReflection) place = Reflected(s, place, axis);
  const Elem last = axis.length - 1, inside = Minimum(Maximum(place, 0), last);
  return Select(IsNan(place), s.nan_is_last ? last : place.Like(0), inside);
}

// Weights of the four elements around a place that is `t` behind the second.
std::array<Elem, 4> CubicWeights(Elem t) {
  constexpr double a = kSharpness;
  const auto near = [](Elem x) { return ((x * (a + 2)) - (a + 3)) * x * x + 1; };
  const auto far = [](Elem x) { return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

std::vector<Tap> TapsOf(const Sampling& s, Elem coordinate, const GridAxis& axis) {
  const Elem place = PlaceOf(s, coordinate, axis);
  if (s.interpolation == Interpolation::kCubic) {
    const Elem first = Floor(place);
    const std::array<Elem, 4> weights = CubicWeights(place - first);
    std::vector<Tap> taps;
    for (int i = 0; i < 4; ++i) taps.push_back({Padded(s, first + (i - 1), axis), weights[i]});
    return taps;
  }
  const Elem inside = Padded(s, place, axis);
  if (s.interpolation == Interpolation::kNearest) return {{Apply(Op::k_round, inside), {}}};
  const Elem first = Floor(inside), behind = inside - first;
  return {{first, 1 - behind}, {first + 1, behind}};
}

// The image's element at these places of its dimensions, 0 out of range, times its weight; `at` has
// its batch and channel.
Elem Weighted(Recorder& ops, const Tensor& image, bool outside_is_none,
              std::span<const GridAxis> axes, std::span<const Elem> places,
              const std::optional<Elem>& weight, std::vector<Expr> at) {
  std::vector<Value> inside;
  for (size_t d = 0; d < axes.size(); ++d) {
    inside.push_back((places[d] >= 0).value);
    inside.push_back((places[d] < axes[d].length).value);
    at.push_back(ops.Indirect(places[d].To(kInt64).value, axes[d].size));
  }
  const Elem none{&ops, ops.Constant(0, ComputeType(image.dtype()))};
  const Value in_range = AllOf(ops, inside);
  const Elem value{&ops, ops.Masked(in_range, [&] { return image.Load(ops, at); }, none.value)};
  if (!weight) return value;
  return outside_is_none ? Select({&ops, in_range}, value * *weight, none) : value * *weight;
}

// The combinations of taps, one of each dimension, and what they sum up to.
struct Neighbourhood {
  const Tensor& image;
  bool outside_is_none;
  std::span<const GridAxis> axes;
  std::span<const std::vector<Tap>> taps;
  std::vector<Expr> at;  // batch and channel
};

// Each element times its weights' product; the last dimension runs fastest.
Elem SumOfProducts(Recorder& ops, const Neighbourhood& n) {
  std::vector<size_t> chosen(n.axes.size(), 0);
  std::optional<Elem> sum;
  for (;;) {
    std::vector<Elem> places;
    std::optional<Elem> weight;
    for (size_t d = 0; d < n.axes.size(); ++d) {
      const Tap& tap = n.taps[d][chosen[d]];
      places.push_back(tap.place);
      if (tap.weight.ops != nullptr) weight = weight ? *weight * tap.weight : tap.weight;
    }
    const Elem part = Weighted(ops, n.image, n.outside_is_none, n.axes, places, weight, n.at);
    sum = sum ? *sum + part : part;
    size_t d = n.axes.size();
    while (d > 0 && ++chosen[d - 1] == n.taps[d - 1].size()) chosen[--d] = 0;
    if (d == 0) return *sum;
  }
}

// Each row summed up by the last dimension's weights, then the rows by those of the dimension
// before: `places` has the dimensions that are chosen. Eager's order of a cubic kernel, which shows
// where products overflow.
Elem SumOfRows(Recorder& ops, const Neighbourhood& n, std::vector<Elem>& places) {
  std::optional<Elem> sum;
  const size_t dimension = places.size();
  for (const Tap& tap : n.taps[dimension]) {
    places.push_back(tap.place);
    const Elem value = places.size() == n.axes.size() ? Weighted(ops, n.image, n.outside_is_none,
                                                                 n.axes, places, std::nullopt, n.at)
                                                      : SumOfRows(ops, n, places);
    places.pop_back();
    const Elem part = value * tap.weight;
    sum = sum ? *sum + part : part;
  }
  return *sum;
}

// (input [N, C, D...], grid [N, R..., dimensions]): [N, C, R...]; a grid's coordinates are in the
// opposite order of the dimensions.
template <int dimensions>
Results GridSampler(Builder& b, const Call& call) {
  const Tensor image = RealizeArgumentIfExpensive(b, call, "input");
  const auto interpolation = static_cast<Interpolation>(call.constant("interpolation_mode"));
  const bool is_cubic = interpolation == Interpolation::kCubic;
  const bool is_cpu = b.device() == v1::DEVICE_TYPE_CPU, is_volume = dimensions == 3;
  const Sampling s{.interpolation = interpolation,
                   .padding = static_cast<Padding>(call.constant("padding_mode")),
                   .align_corners = call.boolean("align_corners"),
                   .nan_is_last = is_volume && is_cpu,
                   .outside_is_none = !is_cubic && (is_volume || !is_cpu)};
  // Eager rounds each step; what becomes of infinities on the way is the library's to say.
  const bool is_narrow = ComputeType(image.dtype()) != image.dtype();
  if (is_narrow && is_cpu) {
    return absl::UnimplementedError("images of narrow floats on the CPU");
  }
  const Tensor grid = RealizeArgumentIfExpensive(b, call, "grid");
  if (image.rank() != dimensions + 2 || grid.rank() != dimensions + 2 ||
      image.dtype() != grid.dtype() || !IsFloating(image.dtype()) ||
      !grid.sizes().back().Is(dimensions) || !sym::MayBeEqual(image.sizes()[0], grid.sizes()[0])) {
    return absl::InvalidArgumentError("the grid does not fit the image");
  }
  for (int d = 2; d < image.rank(); ++d) TENSORD_RETURN_IF_ERROR(NeedElements(image.sizes()[d]));
  Sizes sizes = {image.sizes()[0], image.sizes()[1]};
  sizes.insert(sizes.end(), grid.sizes().begin() + 1, grid.sizes().end() - 1);
  const auto body = [=](Recorder& ops, Index index) {
    const DType type = ComputeType(image.dtype());
    std::vector<Expr> of_grid = {index[0]};
    of_grid.insert(of_grid.end(), index.begin() + 2, index.end());
    of_grid.emplace_back(0);
    std::vector<GridAxis> axes;
    std::vector<std::vector<Tap>> taps;
    for (int d = 0; d < dimensions; ++d) {
      const Expr& size = image.sizes()[d + 2];
      axes.push_back({size, Elem{&ops, ops.Index(size, type)}});
      of_grid.back() = Expr(dimensions - 1 - d);
      taps.push_back(TapsOf(s, Elem{&ops, grid.Load(ops, of_grid)}, axes.back()));
    }
    const Neighbourhood n{image, s.outside_is_none, axes, taps, {index[0], index[1]}};
    std::vector<Elem> places;
    return (is_cubic ? SumOfRows(ops, n, places) : SumOfProducts(ops, n)).value;
  };
  const int cost = interpolation == Interpolation::kNearest ? 50 : is_cubic ? 400 : 120;
  return std::vector<Tensor>{b.Pointwise(image.dtype(), sizes, {image, grid}, cost, body)};
}

constexpr Lowering kGridSamplerLowerings[] = {
    {"aten::grid_sampler_2d", GridSampler<2>},
    {"aten::grid_sampler_3d", GridSampler<3>},
};

}  // namespace

std::span<const Lowering> GridSamplerLowerings() { return kGridSamplerLowerings; }

}  // namespace tensord::compiler
