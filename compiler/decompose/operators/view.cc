// SPDX-License-Identifier: Apache-2.0
// Operators that look at the elements of a tensor in another order, without computing. Of a
// realized tensor most give views of the same buffer, as in eager; of a lazy one they rewrite the
// index. What joins or pads tensors is in concatenation.cc.
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "compiler/decompose/layout.h"
#include "compiler/decompose/lowering.h"
#include "compiler/decompose/operators/concatenation.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

using Dims = std::vector<int>;

Results Same(Builder&, const Call& call) { return AsResults(call.tensor("self")); }

// ---- Shapes

// Sizes with one -1 replaced by what is left of `total` elements.
absl::StatusOr<Sizes> InferSizes(Sizes sizes, const Expr& total) {
  Expr known(1);
  int unknown = -1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!sizes[d].Is(-1)) {
      known *= sizes[d];
    } else if (unknown >= 0) {
      return absl::InvalidArgumentError("only one size may be -1");
    } else {
      unknown = static_cast<int>(d);
    }
  }
  if (unknown >= 0) {
    if (!sym::MayBeAtMost(Expr(1), known))
      return absl::InvalidArgumentError("a size of -1 beside a size of 0");
    sizes[unknown] = sym::ExactDiv(total, known).value_or(sym::FloorDiv(total, known));
    known *= sizes[unknown];
  }
  for (const Expr& size : sizes) {
    if (!sym::MayBeSize(size)) return absl::InvalidArgumentError("a size is negative");
  }
  if (!sym::MayBeEqual(known, total)) {
    return absl::InvalidArgumentError(absl::StrCat(
        sym::ToString(total), " elements do not fit sizes of ", sym::ToString(known), " elements"));
  }
  return sizes;
}

Results View(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(
      const Sizes sizes,
      InferSizes(call.integers(call.takes("shape") ? "shape" : "size"), sym::Product(t.sizes())));
  return AsResults(b.Reshape(t, sizes));
}

Results ViewAsReal(Builder& b, const Call& call) {
  return AsResults(b.ViewAsReal(call.tensor("self")));
}

Results ViewAsComplex(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  if (t.rank() == 0 || !sym::MayBeEqual(t.sizes().back(), Expr(2))) {
    return absl::InvalidArgumentError("complex numbers have two parts");
  }
  if (t.dtype() != kFloat32 && t.dtype() != kFloat64) {
    return absl::UnimplementedError("complex numbers of this type");
  }
  return AsResults(b.ViewAsComplex(t));
}

// The same bits as another type of the same width.
Results ViewAsType(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  const DType to = *call.dtype("dtype");
  // Narrow floats are wider while they are computed with, so their bits are not at hand.
  if (ItemSize(to) != ItemSize(t.dtype()) || ComputeType(to) != to ||
      ComputeType(t.dtype()) != t.dtype()) {
    return absl::UnimplementedError("bits of other widths");
  }
  return AsResults(b.Pointwise(to, t.sizes(), {t}, 0, [t, to](Recorder& ops, Index index) {
    return ops.Bitcast(t.Load(ops, index), to);
  }));
}

Results Expand(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  Sizes sizes = call.integers("size");
  const size_t skip = sizes.size() - t.sizes().size();
  if (sizes.size() < t.sizes().size()) return absl::InvalidArgumentError("expands to a lower rank");
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d < skip) {
      if (!sym::MayBeSize(sizes[d])) return absl::InvalidArgumentError("a new size is negative");
      continue;
    }
    const Expr& from = t.sizes()[d - skip];
    if (sizes[d].Is(-1)) sizes[d] = from;
    if (!sym::IsOne(from) && !sym::MayBeEqual(from, sizes[d])) {
      return absl::InvalidArgumentError(absl::StrCat("cannot expand size ", sym::ToString(from),
                                                     " to ", sym::ToString(sizes[d])));
    }
  }
  return AsResults(b.Expand(t, sizes));
}

Results BroadcastInDim(Builder& b, const Call& call) {
  Tensor t = call.tensor("a");
  const Sizes sizes = call.integers("shape");
  const std::vector<int64_t> dims = call.constants("broadcast_dimensions");
  if (static_cast<int>(dims.size()) != t.rank()) {
    return absl::InvalidArgumentError("needs one broadcast dimension for each dimension");
  }
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) {
      if (d > t.rank()) return absl::InvalidArgumentError("broadcast dimensions must be in order");
      t = b.Unsqueeze(t, d);
    }
  }
  if (t.sizes().size() != sizes.size() || !BroadcastSizes(t.sizes(), sizes)) {
    return absl::InvalidArgumentError("does not broadcast to the shape");
  }
  return AsResults(b.Expand(t, sizes));
}

// ---- Order of dimensions

Results PermuteTo(Builder& b, const Tensor& t, const Dims& order) {
  return AsResults(t.rank() < 2 ? t : b.Permute(t, order));
}

Results Permute(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const Dims order, NormalizeDims(call.constants("dims"), t.rank()));
  if (static_cast<int>(order.size()) != t.rank()) {
    return absl::InvalidArgumentError("the dimensions are no permutation");
  }
  return PermuteTo(b, t, order);
}

Results SwapDims(Builder& b, const Tensor& t, int64_t first, int64_t second) {
  TENSORD_ASSIGN_OR_RETURN(const int i, NormalizeDim(first, t.rank()));
  TENSORD_ASSIGN_OR_RETURN(const int j, NormalizeDim(second, t.rank()));
  Dims order;
  for (int d = 0; d < t.rank(); ++d) order.push_back(d == i ? j : d == j ? i : d);
  return PermuteTo(b, t, order);
}

Results Transpose(Builder& b, const Call& call) {
  return SwapDims(b, call.tensor("self"), call.constant("dim0"), call.constant("dim1"));
}

Results SwapAxes(Builder& b, const Call& call) {
  return SwapDims(b, call.tensor("self"), call.constant("axis0"), call.constant("axis1"));
}

Results MatrixTranspose(Builder& b, const Call& call) {
  if (call.tensor("self").rank() > 2)
    return absl::InvalidArgumentError("t() is for rank 2 or less");
  return call.tensor("self").rank() < 2 ? Same(b, call) : SwapDims(b, call.tensor("self"), 0, 1);
}

// ---- Dimensions of size 1

Tensor SqueezeDims(Builder& b, Tensor t, Dims dims) {
  std::sort(dims.rbegin(), dims.rend());
  for (int d : dims) {
    if (d < t.rank() && sym::IsOne(t.sizes()[d])) t = b.Squeeze(t, d);
  }
  return t;
}

Results SqueezeAll(Builder& b, const Call& call) {
  Dims dims;
  for (int d = 0; d < call.tensor("self").rank(); ++d) dims.push_back(d);
  return AsResults(SqueezeDims(b, call.tensor("self"), dims));
}

Results Squeeze(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Dims dims,
                           NormalizeDims(call.constants("dim"), call.tensor("self").rank()));
  return AsResults(SqueezeDims(b, call.tensor("self"), dims));
}

Results Unsqueeze(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const int dim, NormalizeDim(call.constant("dim"), t.rank() + 1));
  return AsResults(b.Unsqueeze(t, dim));
}

// ---- Parts

Results Slice(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const int dim, DimOf(t, call.constant("dim")));
  TENSORD_ASSIGN_OR_RETURN(const SliceRange range, SliceOf(call, t.sizes()[dim]));
  return AsResults(b.Slice(t, dim, range.start, range.length, range.step));
}

Results Select(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const int dim, DimOf(t, call.constant("dim")));
  TENSORD_ASSIGN_OR_RETURN(const Expr index, IndexOf(call.integer("index"), t.sizes()[dim]));
  return AsResults(b.Select(t, dim, index));
}

Results Unbind(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const int dim, DimOf(t, call.constant("dim")));
  if (!t.sizes()[dim].IsConstant() || *t.sizes()[dim].AsConstant() > kMaxParts) {
    return absl::UnimplementedError("a symbolic or very large number of results");
  }
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < *t.sizes()[dim].AsConstant(); ++i)
    parts.push_back(b.Select(t, dim, Expr(i)));
  return parts;
}

Results SplitAt(Builder& b, const Tensor& t, int dim, const Sizes& lengths) {
  std::vector<Tensor> parts;
  Expr start(0);
  for (const Expr& length : lengths) {
    if (!sym::MayBeSize(length)) return absl::InvalidArgumentError("a part has a negative size");
    parts.push_back(b.Slice(t, dim, start, length, 1));
    start += length;
  }
  if (!sym::MayBeEqual(start, t.sizes()[dim])) {
    return absl::InvalidArgumentError(absl::StrCat("the parts have ", sym::ToString(start), " of ",
                                                   sym::ToString(t.sizes()[dim])));
  }
  return parts;
}

// Parts of `length`, the last one shorter. As many as at capture: the job's guards hold that
// number.
Results SplitEvenly(Builder& b, const Tensor& t, int dim, const Expr& length) {
  if (sym::DependsOnData(length) || sym::DependsOnData(t.sizes()[dim]))
    return absl::UnimplementedError("data decides the number of parts");
  const int64_t each = sym::Hint(length), total = sym::Hint(t.sizes()[dim]);
  if (each <= 0 && total > 0)
    return absl::InvalidArgumentError("the size of a part must be positive");
  const int64_t count = std::max<int64_t>(1, each == 0 ? 1 : (total + each - 1) / each);
  if (count > kMaxParts) return absl::UnimplementedError("very many results");
  Sizes lengths(static_cast<size_t>(count - 1), length);
  lengths.push_back(t.sizes()[dim] - length * Expr(count - 1));
  return SplitAt(b, t, dim, lengths);
}

Results Split(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const int dim, DimOf(t, call.constant("dim")));
  return SplitEvenly(b, t, dim, call.integer("split_size"));
}

Results SplitWithSizes(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const int dim, DimOf(t, call.constant("dim")));
  return SplitAt(b, t, dim, call.integers("split_sizes"));
}

Results Chunk(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const int dim, DimOf(t, call.constant("dim")));
  const int64_t chunks = call.constant("chunks");
  if (chunks <= 0) return absl::InvalidArgumentError("the number of chunks must be positive");
  return SplitEvenly(b, t, dim, sym::CeilDiv(t.sizes()[dim], Expr(chunks)));
}

// ---- Strides

// Storage offsets in a graph count from the start of eager's storage; ours from the argument's own
// first element, which lies at its declared offset.
Results AsStrided(Builder& b, const Call& call) {
  const TensorType& type = call.argument_type("self");
  const Tensor base = WithStrides(b, call.tensor("self"), type.strides);
  const Sizes sizes = call.integers("size"), strides = call.integers("stride");
  if (sizes.size() != strides.size())
    return absl::InvalidArgumentError("sizes and strides differ in rank");
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!sym::MayBeSize(sizes[d]) || !sym::MayBeSize(strides[d])) {
      return absl::InvalidArgumentError("a size or stride is negative");
    }
  }
  const Expr moved =
      call.has("storage_offset") ? call.integer("storage_offset") - type.offset : Expr(0);
  const Expr offset = base.view()->offset + moved;
  const BufferInfo& buffer = b.program().buffers[base.view()->buffer];
  const Expr end = (offset + StorageElements(sizes, strides)) * (base.view()->is_complex ? 2 : 1);
  if (!sym::MayBeSize(offset) ||
      !sym::MayBeAtMost(end, StorageElements(buffer.sizes, buffer.strides))) {
    // What an input is a part of may have that; the library knows. Nobody has it of what the graph
    // computes: its memory is the argument's alone.
    const char* const what = "reaches beyond the memory of its argument";
    return buffer.kind == BufferKind::kInput ? absl::UnimplementedError(what)
                                             : absl::InvalidArgumentError(what);
  }
  return AsResults(b.AsStrided(base, sizes, strides, offset));
}

Results DiagonalOf(Builder& b, const Call& call, const Tensor& t) {
  TENSORD_ASSIGN_OR_RETURN(const int i, DimOf(t, call.constant("dim1")));
  TENSORD_ASSIGN_OR_RETURN(const int j, DimOf(t, call.constant("dim2")));
  if (i == j) return absl::InvalidArgumentError("the dimensions of a diagonal must differ");
  const int64_t offset = call.constant("offset");
  const int64_t row = std::max<int64_t>(0, -offset), column = std::max<int64_t>(0, offset);
  Expr length = sym::Min(t.sizes()[i] - row, t.sizes()[j] - column);
  if (const auto is_outside = sym::IsNegative(length); is_outside != false)
    length = is_outside ? Expr(0) : sym::Max(length, Expr(0));
  Sizes sizes;
  for (int d = 0; d < t.rank(); ++d) {
    if (d != i && d != j) sizes.push_back(t.sizes()[d]);
  }
  sizes.push_back(length);
  if (t.view() && !length.Is(0)) {
    const BufferView& view = *t.view();
    Sizes strides;
    for (int d = 0; d < t.rank(); ++d) {
      if (d != i && d != j) strides.push_back(view.strides[d]);
    }
    strides.push_back(view.strides[i] + view.strides[j]);
    return AsResults(b.AsStrided(t, sizes, strides,
                                 view.offset + view.strides[i] * row + view.strides[j] * column));
  }
  return AsResults(b.Reindex(t, sizes, [i, j, row, column, rank = t.rank()](Index index) {
    std::vector<Expr> source;
    size_t next = 0;
    for (int d = 0; d < rank; ++d) {
      source.push_back(d == i   ? index.back() + row
                       : d == j ? index.back() + column
                                : index[next++]);
    }
    return source;
  }));
}

Results Diagonal(Builder& b, const Call& call) { return DiagonalOf(b, call, call.tensor("self")); }

// Windows of `size` along a dimension, every `step`, as a new last dimension.
Results Unfold(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  const int64_t size = call.constant("size"), step = call.constant("step");
  const bool is_number = t.rank() == 0;  // one window, of at most the number itself
  TENSORD_ASSIGN_OR_RETURN(const int dim, is_number ? 0 : DimOf(t, call.constant("dimension")));
  if (size < 0 || step <= 0 ||
      !sym::MayBeAtMost(Expr(size), is_number ? Expr(1) : t.sizes()[dim])) {
    return absl::InvalidArgumentError("the window does not fit");
  }
  if (is_number) {
    if (t.view()) return AsResults(b.AsStrided(t, {Expr(size)}, {Expr(1)}, t.view()->offset));
    return AsResults(b.Reindex(t, {Expr(size)}, [](Index) { return std::vector<Expr>{}; }));
  }
  Sizes sizes = t.sizes();
  sizes[dim] = sym::FloorDiv(sizes[dim] - size, Expr(step)) + 1;
  sizes.push_back(Expr(size));
  if (t.view()) {
    Sizes strides = t.view()->strides;
    strides.push_back(strides[dim]);
    strides[dim] *= Expr(step);
    return AsResults(b.AsStrided(t, sizes, strides, t.view()->offset));
  }
  return AsResults(b.Reindex(t, sizes, [dim, step](Index index) {
    std::vector<Expr> source(index.begin(), index.end() - 1);
    source[dim] = source[dim] * Expr(step) + index.back();
    return source;
  }));
}

// ---- With memory of their own

template <LowerFn view>
Results CopyOf(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(std::vector<Tensor> results, view(b, call));
  for (Tensor& result : results) result = LazyCopy(b, result);
  return results;
}

Results Narrow(Builder& b, const Call& call) {
  const Tensor t = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const int dim, DimOf(t, call.constant("dim")));
  const Expr start = call.integer("start"), length = call.integer("length");
  const auto from_end = sym::IsNegative(start);
  if (!from_end) return absl::UnimplementedError("data decides from which end a part counts");
  const Expr first = *from_end ? start + t.sizes()[dim] : start;
  if (!sym::MayBeSize(first) || !sym::MayBeSize(length) ||
      !sym::MayBeAtMost(first + length, t.sizes()[dim])) {
    return absl::InvalidArgumentError("the part reaches beyond the dimension");
  }
  return AsResults(b.Slice(t, dim, first, length, 1));
}

// A copy of the base, into whose diagonal the part is written.
Results DiagonalScatter(Builder& b, const Call& call) {
  const Tensor part = call.tensor("src");
  const Tensor result =
      b.RealizeAs(LazyCopy(b, call.tensor("self")), BufferStrides(call.argument_type("self")));
  TENSORD_ASSIGN_OR_RETURN(const std::vector<Tensor> diagonal, DiagonalOf(b, call, result));
  if (!MayBeSameSizes(diagonal[0].sizes(), part.sizes()))
    return absl::InvalidArgumentError("the part does not fit the diagonal");
  if (diagonal[0].view()) b.Assign(diagonal[0], part);  // an empty one is no view
  return AsResults(result);
}

const Lowering kViewLowerings[] = {
    {"aten::alias", Same},
    {"aten::detach", Same},
    {"aten::lift_fresh", Same},
    {"aten::view", View},
    {"aten::_unsafe_view", View},
    {"aten::reshape", View},
    {"aten::_reshape_alias", View},
    {"aten::view.dtype", ViewAsType},
    {"aten::expand", Expand},
    {"prims::broadcast_in_dim", BroadcastInDim},
    {"aten::permute", Permute},
    {"aten::transpose.int", Transpose},
    {"aten::swapaxes", SwapAxes},
    {"aten::t", MatrixTranspose},
    {"aten::squeeze", SqueezeAll},
    {"aten::squeeze.dim", Squeeze},
    {"aten::squeeze.dims", Squeeze},
    {"aten::unsqueeze", Unsqueeze},
    {"aten::slice.Tensor", Slice},
    {"aten::select.int", Select},
    {"aten::unbind.int", Unbind},
    {"aten::split.Tensor", Split},
    {"aten::unsafe_split.Tensor", Split},
    {"aten::split_with_sizes", SplitWithSizes},
    {"aten::unsafe_split_with_sizes", SplitWithSizes},
    {"aten::chunk", Chunk},
    {"aten::unsafe_chunk", Chunk},
    {"aten::as_strided", AsStrided},
    {"aten::diagonal", Diagonal},
    {"aten::view_as_real", ViewAsReal},
    {"aten::view_as_complex", ViewAsComplex},
    {"aten::unfold", Unfold},
    {"aten::view_copy", CopyOf<View>},
    {"aten::as_strided_copy", CopyOf<AsStrided>},
    {"aten::permute_copy", CopyOf<Permute>},
    {"aten::narrow_copy", CopyOf<Narrow>},
    {"aten::unbind_copy.int", CopyOf<Unbind>},
    {"aten::diagonal_scatter", DiagonalScatter},
};

}  // namespace

std::span<const Lowering> ViewLowerings() { return kViewLowerings; }

}  // namespace tensord::compiler
