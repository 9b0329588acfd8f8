// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/operators/concatenation.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "compiler/decompose/expressions.h"
#include "compiler/decompose/layout.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

// ---- Joining

// A few cheap parts are chosen between where the whole is read: vectors that lie in one part, which
// on GPUs nearly all do, load nothing else. Longer lists are computed part by part, in place.
constexpr size_t kMostChosenParts = 4;
constexpr int kMostCostOfChoice = 40;

bool MayChoose(const Builder& b, const std::vector<Tensor>& parts) {
  if (b.device() != v1::DEVICE_TYPE_CUDA || parts.size() > kMostChosenParts) return false;
  int cost = 0;
  for (const Tensor& part : parts) cost += part.cost();
  return cost <= kMostCostOfChoice;
}

Tensor Choose(Builder& b, const std::vector<Tensor>& given, int dim, DType dtype) {
  std::vector<Tensor> parts;
  std::vector<Expr> starts;
  Sizes sizes = given[0].sizes();
  sizes[dim] = Expr(0);
  for (const Tensor& part : given) {
    if (part.sizes()[dim].Is(0)) continue;
    starts.push_back(sizes[dim]);
    sizes[dim] += part.sizes()[dim];
    parts.push_back(b.Cast(part, dtype));
  }
  const int cost = 4 * static_cast<int>(parts.size());
  return b.Pointwise(dtype, sizes, parts, cost, [=](Recorder& ops, Index index) {
    const Value zero = ops.ConstantInt(0, kInt64);
    Value value = ops.Constant(0, ComputeType(dtype));
    for (size_t i = 0; i < parts.size(); ++i) {
      std::vector<Expr> place(index.begin(), index.end());
      place[dim] = place[dim] - starts[i];
      std::vector<Value> inside;
      if (i > 0) inside.push_back(ops.Compute(Op::k_ge, {ops.Index(place[dim]), zero}));
      if (i + 1 < parts.size()) {
        const Value beyond = ops.Index(place[dim] - parts[i].sizes()[dim]);
        inside.push_back(ops.Compute(Op::k_lt, {beyond, zero}));
      }
      value = ops.Masked(AllOf(ops, inside), [&] { return parts[i].Load(ops, place); }, value);
    }
    return value;
  });
}

// `declared`: where eager's layout is not row-major, the parts are computed in it.
Results Concatenate(Builder& b, std::vector<Tensor> parts, int dim, DType dtype,
                    const TensorType& declared) {
  Sizes sizes = parts[0].sizes();
  for (const Tensor& part : parts) {
    bool fits = part.rank() == parts[0].rank();
    for (int d = 0; fits && d < part.rank(); ++d) {
      fits = d == dim || sym::MayBeEqual(part.sizes()[d], parts[0].sizes()[d]);
    }
    if (!fits) return absl::InvalidArgumentError("the tensors differ in a size that is not joined");
    if (&part != parts.data()) sizes[dim] += part.sizes()[dim];
  }
  if (MayChoose(b, parts)) {
    int filled = 0;
    for (const Tensor& part : parts) filled += part.sizes()[dim].Is(0) ? 0 : 1;
    if (filled > 1) return AsResults(Choose(b, parts, dim, dtype));
  }
  const Sizes strides =
      SameSizes(sizes, declared.sizes) ? BufferStrides(declared) : ContiguousStrides(sizes);
  return AsResults(b.Concat(parts, dim, dtype, strides));
}

Results Cat(Builder& b, const Call& call) {
  std::vector<Tensor> parts;
  const std::vector<Tensor> given = call.tensors("tensors");
  if (given.empty()) return absl::InvalidArgumentError("nothing to join");
  for (const Tensor& t : given) {
    // Eager skips tensors of shape [0], whatever the rank of the others.
    if (t.rank() == 1 && t.sizes()[0].Is(0)) continue;
    parts.push_back(t);
  }
  if (parts.empty()) parts.push_back(given[0]);
  TENSORD_ASSIGN_OR_RETURN(const int dim, DimOf(parts[0], call.constant("dim")));
  return Concatenate(b, std::move(parts), dim, PromotedType(given), call.result());
}

Results Stack(Builder& b, const Call& call) {
  std::vector<Tensor> parts = call.tensors("tensors");
  if (parts.empty()) return absl::InvalidArgumentError("nothing to stack");
  const DType dtype = PromotedType(parts);
  const int rank = parts[0].rank();
  TENSORD_ASSIGN_OR_RETURN(const int dim, NormalizeDim(call.constant("dim"), rank + 1));
  for (Tensor& part : parts) {
    if (part.rank() != rank) return absl::InvalidArgumentError("the tensors differ in rank");
    part = b.Unsqueeze(part, dim);
  }
  return Concatenate(b, std::move(parts), dim, dtype, call.result());
}

// ---- Padding and repeating

// Pairs of (before, after) from the last dimension on; negative ones cut off.
Results ConstantPad(Builder& b, const Call& call) {
  Tensor t = call.tensor("self");
  const Sizes pads = call.integers("pad");
  if (pads.size() % 2 != 0 || pads.size() / 2 > t.sizes().size()) {
    return absl::InvalidArgumentError("needs a pair of pads for each of the last dimensions");
  }
  Sizes sizes = t.sizes();
  std::vector<std::pair<int, Expr>> padded;  // dimension, elements before
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    const int d = t.rank() - 1 - static_cast<int>(i);
    Expr before = pads[2 * i], after = pads[2 * i + 1];
    const Expr size = t.sizes()[d];
    if (!sym::MayBeSize(size + before + after))
      return absl::InvalidArgumentError("cuts off too much");
    const auto cuts_before = sym::IsNegative(before), cuts_after = sym::IsNegative(after);
    if (!cuts_before || !cuts_after) return absl::UnimplementedError("data decides the pads");
    sizes[d] = size + before + after;
    const Expr cut = *cuts_before ? -before : Expr(0);
    Expr left = size - cut;
    if (*cuts_after) left += after;
    if (!(left == size)) t = b.Slice(t, d, cut, left, 1);
    if (*cuts_before) before = Expr(0);
    const bool pads_after = !*cuts_after && !after.Is(0);
    if (!before.Is(0) || pads_after) padded.emplace_back(d, before);
  }
  if (padded.empty()) return AsResults(t.view() ? LazyCopy(b, t) : t);
  const Tensor fill = ScalarTensor(b, call.scalar("value"), t.dtype());
  const int cost = 3 * static_cast<int>(padded.size());
  return AsResults(b.Pointwise(t.dtype(), sizes, {t}, cost, [=](Recorder& ops, Index index) {
    std::vector<Expr> source(index.begin(), index.end());
    std::vector<Value> inside;
    for (const auto& [d, before] : padded) {
      source[d] = source[d] - before;
      const Value i = ops.Index(source[d]);
      inside.push_back(ops.Compute(Op::k_ge, {i, ops.ConstantInt(0, kInt64)}));
      const Value beyond = ops.Index(source[d] - t.sizes()[d]);
      inside.push_back(ops.Compute(Op::k_lt, {beyond, ops.ConstantInt(0, kInt64)}));
    }
    return ops.Masked(AllOf(ops, inside), [&] { return t.Load(ops, source); }, fill.Load(ops, {}));
  }));
}

// `t` at the start of a buffer of these sizes, zeros behind it in every dimension. Computed part by
// part, in place: the part that is `t` is a loop of its own shape, which fuses with what made it
// and has no condition inside; and it is computed once, whoever reads it. It comes first: what it
// is computed of may end there and give it its memory.
Results PaddedWithZeros(Builder& b, const Tensor& t, const Sizes& sizes) {
  bool fits = sizes.size() == t.sizes().size();
  for (size_t d = 0; fits && d < sizes.size(); ++d) {
    fits = sym::MayBeAtMost(t.sizes()[d], sizes[d]);
  }
  if (!fits) return absl::InvalidArgumentError("does not fit into the padded sizes");
  const Tensor whole = b.Allocate(t.dtype(), sizes);
  Tensor part = whole;  // in front of the zeros of the dimensions seen so far
  std::vector<Tensor> zeros;
  for (int d = 0; d < t.rank(); ++d) {
    const Expr length = t.sizes()[d], rest = sizes[d] - length;
    if (rest.Is(0)) continue;
    zeros.push_back(b.Slice(part, d, length, rest, 1));
    part = b.Slice(part, d, Expr(0), length, 1);
  }
  b.Assign(part, t);
  for (const Tensor& behind : zeros) b.Assign(behind, b.Full(t.dtype(), {}, 0));
  return AsResults(whole);
}

Results ZeroPadded(Builder& b, const Call& call) {
  return PaddedWithZeros(b, call.tensor("self"), call.integers("size"));
}

Results PaddedRows(Builder& b, const Call& call) {
  const Tensor t = call.tensor("x");
  if (t.rank() != 2) return absl::InvalidArgumentError("pads the rows of matrices");
  return PaddedWithZeros(b, t, {t.sizes()[0], call.integer("columns")});
}

Results Repeat(Builder& b, const Call& call) {
  Tensor t = call.tensor("self");
  const Sizes repeats = call.integers("repeats");
  if (repeats.size() < t.sizes().size())
    return absl::InvalidArgumentError("repeats fewer than the rank");
  while (t.sizes().size() < repeats.size()) t = b.Unsqueeze(t, 0);
  Sizes sizes = t.sizes();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!sym::MayBeSize(repeats[d]))
      return absl::InvalidArgumentError("repeats a negative number of times");
    sizes[d] *= repeats[d];
  }
  return AsResults(b.Reindex(t, sizes, [from = t.sizes(), sizes](Index index) {
    std::vector<Expr> source;
    for (size_t d = 0; d < from.size(); ++d) {
      source.push_back(from[d] == sizes[d] ? index[d] : sym::Mod(index[d], from[d]));
    }
    return source;
  }));
}

Results Flip(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const std::vector<int> dims,
                           NormalizeDims(call.constants("dims"), t.rank()));
  return AsResults(b.Reindex(t, t.sizes(), [dims, sizes = t.sizes()](Index index) {
    std::vector<Expr> source(index.begin(), index.end());
    for (int d : dims) source[d] = sizes[d] - 1 - source[d];
    return source;
  }));
}

Results Roll(Builder& b, const Call& call) {
  Tensor t = call.tensor("self");
  const Sizes shifts = call.integers("shifts"), sizes = t.sizes();
  std::vector<int64_t> dims = call.constants("dims");
  if (dims.empty()) {  // of the flattened tensor
    if (shifts.size() != 1) return absl::InvalidArgumentError("needs one shift without dimensions");
    t = b.Reshape(t, {sym::Product(sizes)});
    dims = {0};
  }
  if (dims.size() != shifts.size())
    return absl::InvalidArgumentError("needs one shift a dimension");
  std::vector<std::pair<int, Expr>> moves;  // dimension, the source of element 0
  for (size_t i = 0; i < dims.size(); ++i) {
    TENSORD_ASSIGN_OR_RETURN(const int d, DimOf(t, dims[i]));
    const auto has_elements = sym::IsLess(Expr(0), t.sizes()[d]);
    if (!has_elements) return absl::UnimplementedError("data decides whether anything moves");
    if (*has_elements) moves.emplace_back(d, sym::Mod(-shifts[i], t.sizes()[d]));
  }
  const Tensor rolled = b.Reindex(t, t.sizes(), [moves, from = t.sizes()](Index index) {
    std::vector<Expr> source(index.begin(), index.end());
    for (const auto& [d, first] : moves) source[d] = sym::Mod(source[d] + first, from[d]);
    return source;
  });
  return AsResults(b.Reshape(rolled, sizes));
}

// ---- Putting parts back

// `base` (or zeros of `dtype`) with the elements of `range` along `dim` taken from `part`.
Results PutBack(Builder& b, const Tensor* base, const Tensor& part, const Sizes& sizes, int dim,
                const SliceRange& range) {
  Sizes wanted = sizes;
  wanted[dim] = range.length;
  for (size_t d = 0; d < wanted.size(); ++d) {
    if (part.sizes().size() != wanted.size() || !sym::MayBeEqual(part.sizes()[d], wanted[d])) {
      return absl::InvalidArgumentError("the part does not fit the place it is put to");
    }
  }
  const DType dtype = base != nullptr ? base->dtype() : part.dtype();
  const Tensor rest = base != nullptr ? *base : b.Expand(b.Full(dtype, {}, 0.0), sizes);
  const Tensor source = b.Cast(part, dtype);
  return AsResults(b.Pointwise(dtype, sizes, {rest, source}, 5, [=](Recorder& ops, Index index) {
    std::vector<Expr> place(index.begin(), index.end());
    const Expr distance = place[dim] - range.start;
    place[dim] = sym::FloorDiv(distance, range.step);
    const Value i = ops.Index(distance);
    const Value zero = ops.ConstantInt(0, kInt64);
    const Expr end = range.length * range.step;
    std::vector<Value> inside = {ops.Compute(Op::k_ge, {i, zero}),
                                 ops.Compute(Op::k_lt, {i, ops.Index(end)})};
    if (!range.step.Is(1)) {
      const Value left_over = ops.Index(sym::Mod(distance, range.step));
      inside.push_back(ops.Compute(Op::k_eq, {left_over, zero}));
    }
    const Value outside = rest.Load(ops, index);
    return ops.Masked(AllOf(ops, inside), [&] { return source.Load(ops, place); }, outside);
  }));
}

Results SliceScatter(Builder& b, const Call& call) {
  const Tensor base = call.tensor("self"), part = call.tensor("src");
  TENSORD_ASSIGN_OR_RETURN(const int dim, DimOf(base, call.constant("dim")));
  TENSORD_ASSIGN_OR_RETURN(const SliceRange range, SliceOf(call, base.sizes()[dim]));
  Sizes place = base.sizes();
  place[dim] = range.length;
  const auto both = BroadcastSizes(part.sizes(), place);
  if (!both || both->size() != place.size())
    return absl::InvalidArgumentError("the part does not fit");
  return PutBack(b, &base, b.Expand(part, place), base.sizes(), dim, range);
}

Results SelectScatter(Builder& b, const Call& call) {
  const Tensor base = call.tensor("self"), part = call.tensor("src");
  TENSORD_ASSIGN_OR_RETURN(const int dim, DimOf(base, call.constant("dim")));
  TENSORD_ASSIGN_OR_RETURN(const Expr index, IndexOf(call.integer("index"), base.sizes()[dim]));
  if (part.rank() != base.rank() - 1)
    return absl::InvalidArgumentError("the part has the wrong rank");
  return PutBack(b, &base, b.Unsqueeze(part, dim), base.sizes(), dim, {index, Expr(1), 1});
}

// A copy of the base, into whose memory the part is written by strides. Offsets count as for
// as_strided: from the start of eager's storage. Of a base with gaps what lies in them would have
// to be copied too: the client leaves those to eager.
Results AsStridedScatter(Builder& b, const Call& call) {
  const TensorType& type = call.argument_type("self");
  const Tensor part = call.tensor("src");
  const Sizes sizes = call.integers("size"), strides = call.integers("stride");
  if (sizes.size() != strides.size() || !MayBeSameSizes(part.sizes(), sizes)) {
    return absl::InvalidArgumentError("the part does not fit the place it is put to");
  }
  if (!IsDense(type.sizes, type.strides)) return absl::InvalidArgumentError("has gaps");
  const Tensor result = b.RealizeAs(LazyCopy(b, call.tensor("self")), BufferStrides(type));
  const BufferInfo& buffer = b.program().buffers[result.view()->buffer];
  const Expr offset =
      call.has("storage_offset") ? call.integer("storage_offset") - type.offset : Expr(0);
  const Expr end = (offset + StorageElements(sizes, strides)) * (buffer.is_complex ? 2 : 1);
  const bool inside =
      sym::MayBeSize(offset) &&
      sym::MayBeAtMost(end, StorageElements(buffer.sizes, buffer.strides)) &&
      std::all_of(strides.begin(), strides.end(), [](const Expr& s) { return sym::MayBeSize(s); });
  if (!inside) return absl::InvalidArgumentError("reaches beyond the memory of its argument");
  b.Assign(b.AsStrided(result, sizes, strides, offset), part);
  return AsResults(result);
}

absl::StatusOr<int> DimOfSizes(const Sizes& sizes, int64_t dim) {
  if (sizes.empty()) return absl::InvalidArgumentError("a zero-dim tensor has no parts");
  return NormalizeDim(dim, static_cast<int>(sizes.size()));
}

Results SliceBackward(Builder& b, const Call& call) {
  const Sizes sizes = call.integers("input_sizes");
  TENSORD_ASSIGN_OR_RETURN(const int dim, DimOfSizes(sizes, call.constant("dim")));
  TENSORD_ASSIGN_OR_RETURN(const SliceRange range, SliceOf(call, sizes[dim]));
  return PutBack(b, nullptr, call.tensor("grad_output"), sizes, dim, range);
}

Results SelectBackward(Builder& b, const Call& call) {
  const Sizes sizes = call.integers("input_sizes");
  TENSORD_ASSIGN_OR_RETURN(const int dim, DimOfSizes(sizes, call.constant("dim")));
  TENSORD_ASSIGN_OR_RETURN(const Expr index, IndexOf(call.integer("index"), sizes[dim]));
  if (call.tensor("grad_output").sizes().size() + 1 != sizes.size()) {
    return absl::InvalidArgumentError("the gradient has the wrong rank");
  }
  return PutBack(b, nullptr, b.Unsqueeze(call.tensor("grad_output"), dim), sizes, dim,
                 {index, Expr(1), 1});
}

const Lowering kConcatenationLowerings[] = {
    {"aten::cat", Cat},
    {"aten::stack", Stack},
    {"aten::constant_pad_nd", ConstantPad},
    {"tensord::zero_padded", ZeroPadded},
    {"tensord::padded_rows", PaddedRows},
    {"aten::repeat", Repeat},
    {"aten::flip", Flip},
    {"aten::roll", Roll},
    {"aten::slice_scatter", SliceScatter},
    {"aten::select_scatter", SelectScatter},
    {"aten::as_strided_scatter", AsStridedScatter},
    {"aten::slice_backward", SliceBackward},
    {"aten::select_backward", SelectBackward},
};

}  // namespace

std::span<const Lowering> ConcatenationLowerings() { return kConcatenationLowerings; }

// ---- Ranges

absl::StatusOr<int> DimOf(const Tensor& t, int64_t dim) {
  if (t.rank() == 0)
    return absl::InvalidArgumentError("a zero-dim tensor has no dimension to name");
  return NormalizeDim(dim, t.rank());
}

absl::StatusOr<SliceRange> SliceOf(const Call& call, const Expr& size) {
  const Expr step = call.has("step") ? call.integer("step") : Expr(1);
  if (!sym::MayBeAtMost(Expr(1), step))
    return absl::InvalidArgumentError("the step of a slice must be positive");
  const auto clamped = [&](Expr e) -> absl::StatusOr<Expr> {
    auto is_negative = sym::IsNegative(e);
    if (is_negative == true) is_negative = sym::IsNegative(e += size);
    if (!is_negative) return absl::UnimplementedError("data decides from which end a slice counts");
    if (*is_negative) return Expr(0);
    const auto is_outside = sym::IsLess(size, e);
    return !is_outside ? sym::Min(e, size) : *is_outside ? size : e;
  };
  SliceRange range{Expr(0), size, step};
  if (call.has("start")) {
    TENSORD_ASSIGN_OR_RETURN(range.start, clamped(call.integer("start")));
  }
  Expr end = size;
  if (call.has("end")) {
    TENSORD_ASSIGN_OR_RETURN(end, clamped(call.integer("end")));
  }
  const auto is_reversed = sym::IsLess(end, range.start);
  if (is_reversed == true) {
    range.length = Expr(0);
  } else {
    const Expr span = end - range.start;
    range.length = sym::CeilDiv(is_reversed ? span : sym::Max(span, Expr(0)), step);
  }
  return range;
}

absl::StatusOr<Expr> IndexOf(const Expr& index, const Expr& size) {
  if (!sym::MayBeSize(index + size) || !sym::MayBeAtMost(index, size - 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "index ", sym::ToString(index), " is out of range for size ", sym::ToString(size)));
  }
  const auto is_negative = sym::IsNegative(index);
  if (!is_negative) return absl::UnimplementedError("data decides from which end an index counts");
  const Expr at = *is_negative ? index + size : index;
  return sym::DependsOnData(at) ? sym::Min(at, size - 1) : at;
}

}  // namespace tensord::compiler
