// SPDX-License-Identifier: Apache-2.0
// Reading and writing through index tensors. Indices out of range fail the run where they do in
// eager; never is there an access outside of a buffer.
#include "compiler/decompose/operators/indexing.h"

#include <algorithm>
#include <limits>

#include "compiler/sym/known.h"

namespace tensord::compiler {

absl::Status NeedIntegers(const Tensor& index) {
  if (index.dtype() == kInt64 || index.dtype() == kInt32) return absl::OkStatus();
  // Truth values select a number of elements that only the run knows: left to the library.
  return absl::UnimplementedError("an index that is not int64 or int32");
}

absl::Status NeedElements(const Expr& size) {
  return size.Is(0) ? absl::UnimplementedError("an index of no element") : absl::OkStatus();
}

namespace {

// A new buffer with the content of `t`.
Tensor CopyOf(Builder& b, const Tensor& t, DType dtype) {
  const Tensor copy = b.Allocate(dtype, t.sizes());
  b.Assign(copy, t);
  return copy;
}

// ---- x[i, :, j, ...]

struct Advanced {
  std::vector<std::optional<Tensor>> indices;  // per dimension of x; broadcast to `common`
  Sizes common;
  int first = 0;  // where the common dimensions stand in the result
  Sizes sizes;    // of the result
  Sizes x_sizes;
  std::vector<IndexRule> rules;  // per dimension of x

  // The element of x that element `index` of the result is.
  std::vector<Expr> Source(Recorder& ops, Index index) const {
    const Index shared = index.subspan(first, common.size());
    std::vector<Expr> source;
    size_t plain = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      if (indices[d]) {
        source.push_back(ops.Indirect(indices[d]->Load(ops, shared), x_sizes[d], rules[d]));
      } else {
        source.push_back(index[plain < static_cast<size_t>(first) ? plain : plain + common.size()]);
        ++plain;
      }
    }
    return source;
  }

  std::vector<Tensor> Reads() const {
    std::vector<Tensor> reads;
    for (const auto& i : indices) {
      if (i) reads.push_back(*i);
    }
    return reads;
  }
};

// What torch's own decompositions index with is in range.
bool IsUnsafe(const Call& call) { return call.op().name.starts_with("aten::_unsafe"); }

absl::StatusOr<Advanced> AdvancedOf(Builder& b, const Tensor& x, const Call& call) {
  std::vector<std::optional<Tensor>> indices = call.optional_tensors("indices");
  if (static_cast<int>(indices.size()) > x.rank()) {
    return absl::InvalidArgumentError("more indices than dimensions");
  }
  indices.resize(x.rank());
  Advanced a{.x_sizes = x.sizes()};
  for (int d = 0; d < x.rank(); ++d) {
    a.rules.push_back(IsUnsafe(call) ? IndexRule{.wraps = true} : b.RuleFor(d, /*wraps=*/true));
  }
  std::vector<int> indexed;
  for (int d = 0; d < x.rank(); ++d) {
    if (!indices[d]) continue;
    TENSORD_RETURN_IF_ERROR(NeedIntegers(*indices[d]));
    TENSORD_RETURN_IF_ERROR(NeedElements(x.sizes()[d]));
    const auto common = BroadcastSizes(a.common, indices[d]->sizes());
    if (!common) return absl::InvalidArgumentError("the indices do not broadcast together");
    a.common = *common;
    indexed.push_back(d);
  }
  if (indexed.empty()) return absl::UnimplementedError("no index at all");
  // Adjacent indices leave their dimensions in place; others move to the front.
  const bool adjacent = indexed.back() - indexed.front() + 1 == static_cast<int>(indexed.size());
  a.first = adjacent ? indexed.front() : 0;
  for (int d = 0; d < x.rank(); ++d) {
    if (!indices[d]) {
      a.sizes.push_back(x.sizes()[d]);
    } else {
      indices[d] = b.Expand(RealizeIfExpensive(b, *indices[d]), a.common);
    }
  }
  a.sizes.insert(a.sizes.begin() + a.first, a.common.begin(), a.common.end());
  a.indices = std::move(indices);
  return a;
}

Results IndexTensor(Builder& b, const Call& call) {
  const Tensor x = RealizeIfExpensive(b, call.tensor("self"));
  TENSORD_ASSIGN_OR_RETURN(const Advanced a, AdvancedOf(b, x, call));
  std::vector<Tensor> reads = a.Reads();
  const int cost = kIndirectCost * static_cast<int>(reads.size());
  reads.push_back(x);
  return std::vector<Tensor>{b.Pointwise(
      x.dtype(), a.sizes, reads, cost,
      [a, x](Recorder& ops, Index index) { return x.Load(ops, a.Source(ops, index)); })};
}

// Writes or adds `values` into `target`, which is realized.
absl::Status Put(Builder& b, const Tensor& target, const Advanced& a, const Tensor& values,
                 StoreMode mode) {
  TENSORD_RETURN_IF_ERROR(CheckBroadcast({values, b.Full(values.dtype(), a.sizes, 0)}));
  if (values.rank() > static_cast<int>(a.sizes.size())) {
    return absl::InvalidArgumentError("values have more dimensions than what they are written to");
  }
  for (int d = 0; d < values.rank(); ++d) {
    // One place and no value: they broadcast together, to nothing.
    const Expr& place = a.sizes[a.sizes.size() - values.rank() + d];
    if (values.sizes()[d].Is(0) && !place.Is(0)) return absl::UnimplementedError("no values");
  }
  const Tensor expanded = b.Expand(values, a.sizes);
  b.Scatter(
      target, a.sizes, mode, [a](Recorder& ops, Index index) { return a.Source(ops, index); },
      [expanded](Recorder& ops, Index index) { return expanded.Load(ops, index); });
  return absl::OkStatus();
}

Results IndexPut(Builder& b, const Call& call) {
  const Tensor x = call.tensor("self");
  const bool accumulate = call.boolean("accumulate");
  if (accumulate && x.dtype() == kBool) return absl::UnimplementedError("a sum of truth values");
  TENSORD_ASSIGN_OR_RETURN(const Advanced a, AdvancedOf(b, x, call));
  const Tensor result = CopyOf(b, x, accumulate ? SumType(x.dtype()) : x.dtype());
  TENSORD_RETURN_IF_ERROR(Put(b, result, a, call.tensor("values"),
                              accumulate ? StoreMode::kAtomicAdd : StoreMode::kAssign));
  return std::vector<Tensor>{b.Cast(result, x.dtype())};
}

// The same into self's own storage.
Results IndexPutInPlace(Builder& b, const Call& call) {
  const Tensor x = call.tensor("self");
  const bool accumulate = call.boolean("accumulate");
  if (!x.view() || (accumulate && SumType(x.dtype()) != x.dtype())) {
    return absl::UnimplementedError("a sum in place of a narrow float");
  }
  if (accumulate && x.dtype() == kBool) return absl::UnimplementedError("a sum of truth values");
  TENSORD_ASSIGN_OR_RETURN(Advanced a, AdvancedOf(b, x, call));
  // What is written may be computed from self, whose elements change under way.
  const Tensor values = CopyOf(b, call.tensor("values"), x.dtype());
  for (auto& index : a.indices) {
    if (index && !index->view()) index = b.Realize(*index);
  }
  TENSORD_RETURN_IF_ERROR(
      Put(b, x, a, values, accumulate ? StoreMode::kAtomicAdd : StoreMode::kAssign));
  return std::vector<Tensor>{x};
}

// ---- One dimension, with an index of the same rank: gather and scatter

struct AlongIndex {
  int dim;
  Tensor index;
  Expr size;  // of self in that dimension
  IndexRule rule;

  std::vector<Expr> At(Recorder& ops, Index where) const {
    std::vector<Expr> at(where.begin(), where.end());
    at[dim] = ops.Indirect(index.Load(ops, where), size, rule);
    return at;
  }
};

absl::StatusOr<AlongIndex> AlongIndexOf(Builder& b, const Call& call) {
  const Tensor x = call.tensor("self"), index = call.tensor("index");
  TENSORD_RETURN_IF_ERROR(NeedIntegers(index));
  if (x.rank() == 0 || index.rank() == 0) return absl::UnimplementedError("zero-dim operands");
  TENSORD_ASSIGN_OR_RETURN(const int dim, NormalizeDim(call.constant("dim"), x.rank()));
  if (index.rank() != x.rank()) {
    // An empty one-dimensional index is allowed and means nothing to do.
    return absl::UnimplementedError("an index of another rank");
  }
  for (int d = 0; d < x.rank(); ++d) {
    if (d != dim && !sym::MayBeAtMost(index.sizes()[d], x.sizes()[d])) {
      return absl::InvalidArgumentError("the index is larger than self");
    }
  }
  TENSORD_RETURN_IF_ERROR(NeedElements(x.sizes()[dim]));
  return AlongIndex{dim, index, x.sizes()[dim], b.RuleFor(dim)};
}

Results Gather(Builder& b, const Call& call) {
  const Tensor x = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const AlongIndex along, AlongIndexOf(b, call));
  return std::vector<Tensor>{b.Pointwise(
      x.dtype(), along.index.sizes(), {x, along.index}, kIndirectCost,
      [x, along](Recorder& ops, Index index) { return x.Load(ops, along.At(ops, index)); })};
}

Results ScatterInto(Builder& b, const Call& call, StoreMode mode, const Body& value) {
  const Tensor x = call.tensor("self");
  if (mode == StoreMode::kAtomicAdd && x.dtype() == kBool) {
    return absl::UnimplementedError("a sum of truth values");
  }
  TENSORD_ASSIGN_OR_RETURN(const AlongIndex along, AlongIndexOf(b, call));
  const Tensor result =
      CopyOf(b, x, mode == StoreMode::kAtomicAdd ? SumType(x.dtype()) : x.dtype());
  b.Scatter(
      result, along.index.sizes(), mode,
      [along](Recorder& ops, Index index) { return along.At(ops, index); }, value);
  return std::vector<Tensor>{b.Cast(result, x.dtype())};
}

absl::Status CheckSource(const Tensor& index, const Tensor& source) {
  if (source.rank() != index.rank()) return absl::UnimplementedError("a source of another rank");
  for (int d = 0; d < index.rank(); ++d) {
    if (!sym::MayBeAtMost(index.sizes()[d], source.sizes()[d])) {
      return absl::InvalidArgumentError("the index is larger than the source");
    }
  }
  return absl::OkStatus();
}

template <StoreMode mode>
Results ScatterSource(Builder& b, const Call& call) {
  const Tensor index = call.tensor("index"), source = call.tensor("src");
  TENSORD_RETURN_IF_ERROR(CheckSource(index, source));
  return ScatterInto(b, call, mode,
                     [source](Recorder& ops, Index at) { return source.Load(ops, at); });
}

Results ScatterValue(Builder& b, const Call& call) {
  const Tensor value = ScalarTensor(b, call.scalar("value"), call.tensor("self").dtype());
  return ScatterInto(b, call, StoreMode::kAssign,
                     [value](Recorder& ops, Index) { return value.Load(ops, {}); });
}

// Scatters that combine what is there with products or extremes.
struct Combination {
  StoreMode mode;
  std::function<Tensor(Builder&, DType)> identity;  // of no dimensions
};

// A number of a type that is no more, or no less, than all others.
template <bool is_most>
Tensor Bound(Builder& b, DType dtype) {
  if (IsFloating(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return b.Full(dtype, {}, is_most ? infinity : -infinity);
  }
  const int bits = 8 * static_cast<int>(ItemSize(dtype));
  const int64_t most = std::numeric_limits<int64_t>::max() >> (64 - bits);
  if (IsUnsigned(dtype)) return b.FullInt(dtype, {}, is_most ? 2 * most + 1 : 0);
  return b.FullInt(dtype, {}, is_most ? most : -most - 1);
}

// Sums and means are decomposed by the job.
absl::StatusOr<Combination> CombinationOf(const Call& call) {
  const std::string name = call.text("reduce");
  if (name == "amax") return Combination{StoreMode::kAtomicMax, Bound<false>};
  if (name == "amin") return Combination{StoreMode::kAtomicMin, Bound<true>};
  if (name == "prod") {
    return Combination{StoreMode::kAtomicMul,
                       [](Builder& b, DType dtype) { return b.FullInt(dtype, {}, 1); }};
  }
  return absl::UnimplementedError("a sum or a mean");
}

// self, combined with `value` in each place of `sizes`, in the type in which that is done. What
// self has in these places counts or not, as the call says.
using Places = std::function<std::vector<Expr>(Recorder&, Index)>;
Results Combine(Builder& b, const Call& call, const Sizes& sizes, const Places& where,
                const Tensor& source) {
  const Tensor x = call.tensor("self");
  if (x.dtype() == kBool || IsComplex(x.dtype())) return absl::UnimplementedError("no numbers");
  if (source.dtype() != x.dtype()) return absl::InvalidArgumentError("two types of numbers");
  TENSORD_ASSIGN_OR_RETURN(const Combination combination, CombinationOf(call));
  const DType type = SumType(x.dtype());
  const Tensor result = CopyOf(b, x, type);
  if (!call.boolean("include_self")) {
    const Tensor identity = combination.identity(b, type);
    b.Scatter(result, sizes, StoreMode::kAssign, where,
              [identity](Recorder& ops, Index) { return identity.Load(ops, {}); });
  }
  b.Scatter(result, sizes, combination.mode, where,
            [source](Recorder& ops, Index index) { return source.Load(ops, index); });
  return std::vector<Tensor>{b.Cast(result, x.dtype())};
}

Results ScatterReduce(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const AlongIndex along, AlongIndexOf(b, call));
  TENSORD_RETURN_IF_ERROR(CheckSource(along.index, call.tensor("src")));
  return Combine(
      b, call, along.index.sizes(),
      [along](Recorder& ops, Index index) { return along.At(ops, index); }, call.tensor("src"));
}

// ---- One dimension, with a list of positions: index_select and its inverses

struct Positions {
  int dim;
  Tensor index;  // one-dimensional
  Expr size;     // of self in that dimension
  IndexRule rule;

  std::vector<Expr> At(Recorder& ops, Index where) const {
    std::vector<Expr> at(where.begin(), where.end());
    const std::vector<Expr> position{where[dim]};
    at[dim] = ops.Indirect(index.Load(ops, position), size, rule);
    return at;
  }
};

// wraps: negative positions count from the end.
absl::StatusOr<Positions> PositionsOf(Builder& b, const Call& call, bool wraps = false) {
  const Tensor x = call.tensor("self"), index = call.tensor("index");
  TENSORD_RETURN_IF_ERROR(NeedIntegers(index));
  if (x.rank() == 0) return absl::UnimplementedError("a zero-dim operand");
  if (index.rank() > 1) return absl::InvalidArgumentError("the index must be one-dimensional");
  TENSORD_ASSIGN_OR_RETURN(const int dim, NormalizeDim(call.constant("dim"), x.rank()));
  TENSORD_RETURN_IF_ERROR(NeedElements(x.sizes()[dim]));
  return Positions{dim, index.rank() == 0 ? b.Unsqueeze(index, 0) : index, x.sizes()[dim],
                   b.RuleFor(dim, wraps)};
}

Sizes SelectedSizes(const Tensor& x, const Positions& p) {
  Sizes sizes = x.sizes();
  sizes[p.dim] = p.index.sizes()[0];
  return sizes;
}

Results IndexSelect(Builder& b, const Call& call) {
  const Tensor x = RealizeIfExpensive(b, call.tensor("self"));
  TENSORD_ASSIGN_OR_RETURN(const Positions p, PositionsOf(b, call));
  return std::vector<Tensor>{
      b.Pointwise(x.dtype(), SelectedSizes(x, p), {x, p.index}, kIndirectCost,
                  [x, p](Recorder& ops, Index index) { return x.Load(ops, p.At(ops, index)); })};
}

Results IndexAdd(Builder& b, const Call& call) {
  const Tensor x = call.tensor("self"), source = call.tensor("source");
  if (x.dtype() == kBool) return absl::UnimplementedError("a sum of truth values");
  TENSORD_ASSIGN_OR_RETURN(const Positions p, PositionsOf(b, call));
  TENSORD_RETURN_IF_ERROR(CheckSizes("the source", source, SelectedSizes(x, p)));
  const Tensor result = CopyOf(b, x, SumType(x.dtype()));
  const Tensor alpha = ScalarTensor(b, call.scalar("alpha"), ComputeType(x.dtype()));
  const bool scaled = !call.scalar("alpha").IsConstant(1);
  b.Scatter(
      result, source.sizes(), StoreMode::kAtomicAdd,
      [p](Recorder& ops, Index index) { return p.At(ops, index); },
      [=, type = SumType(x.dtype())](Recorder& ops, Index index) {
        const Value value = ops.Cast(source.Load(ops, index), type);
        return scaled ? ops.Mul(value, alpha.Load(ops, {})) : value;
      });
  return std::vector<Tensor>{b.Cast(result, x.dtype())};
}

Results IndexReduce(Builder& b, const Call& call) {
  const Tensor source = call.tensor("source");
  TENSORD_ASSIGN_OR_RETURN(const Positions p, PositionsOf(b, call));
  TENSORD_RETURN_IF_ERROR(CheckSizes("the source", source, SelectedSizes(call.tensor("self"), p)));
  return Combine(
      b, call, source.sizes(), [p](Recorder& ops, Index index) { return p.At(ops, index); },
      source);
}

Results IndexCopy(Builder& b, const Call& call) {
  const Tensor x = call.tensor("self"), source = call.tensor("source");
  TENSORD_ASSIGN_OR_RETURN(const Positions p, PositionsOf(b, call));
  TENSORD_RETURN_IF_ERROR(CheckSizes("the source", source, SelectedSizes(x, p)));
  const Tensor result = CopyOf(b, x, x.dtype());
  b.Scatter(
      result, source.sizes(), StoreMode::kAssign,
      [p](Recorder& ops, Index index) { return p.At(ops, index); },
      [source](Recorder& ops, Index index) { return source.Load(ops, index); });
  return std::vector<Tensor>{result};
}

Results IndexFill(Builder& b, const Call& call) {
  const Tensor x = call.tensor("self");
  TENSORD_ASSIGN_OR_RETURN(const Positions p, PositionsOf(b, call, /*wraps=*/true));
  const Tensor value = ScalarTensor(b, call.scalar("value"), x.dtype());
  const Tensor result = CopyOf(b, x, x.dtype());
  b.Scatter(
      result, SelectedSizes(x, p), StoreMode::kAssign,
      [p](Recorder& ops, Index index) { return p.At(ops, index); },
      [value](Recorder& ops, Index) { return value.Load(ops, {}); });
  return std::vector<Tensor>{result};
}

constexpr Lowering kIndexingLowerings[] = {
    {"aten::embedding", Embedding},
    {"aten::embedding_dense_backward", EmbeddingBackward},
    {"tensord::embedding_added", EmbeddingAdded},
    {"aten::index.Tensor", IndexTensor},
    {"aten::_unsafe_index.Tensor", IndexTensor},
    {"aten::index_put", IndexPut},
    {"aten::_unsafe_index_put", IndexPut},
    {"aten::index_put_", IndexPutInPlace},
    {"aten::gather", Gather},
    {"aten::scatter.src", ScatterSource<StoreMode::kAssign>},
    {"aten::scatter.value", ScatterValue},
    {"aten::scatter_add", ScatterSource<StoreMode::kAtomicAdd>},
    {"aten::scatter_reduce.two", ScatterReduce, v1::DEVICE_TYPE_CPU},
    {"aten::index_reduce", IndexReduce, v1::DEVICE_TYPE_CPU},
    {"aten::index_select", IndexSelect},
    {"aten::index_add", IndexAdd},
    {"aten::index_copy", IndexCopy},
    {"aten::index_fill.int_Scalar", IndexFill},
};

}  // namespace

std::span<const Lowering> IndexingLowerings() { return kIndexingLowerings; }

}  // namespace tensord::compiler
