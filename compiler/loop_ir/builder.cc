// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop_ir/builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

Expr Linear(const Expr& offset, const Sizes& strides, Index index) {
  Expr sum = offset;
  for (size_t d = 0; d < strides.size(); ++d) sum += index[d] * strides[d];
  return sum;
}

// Loop variables for an iteration space, numbered from `first`.
std::vector<Expr> LoopVariables(const Sizes& sizes, int first) {
  std::vector<Expr> loops;
  for (const Expr& size : sizes) loops.push_back(Expr::Loop(first++, size));
  return loops;
}

}  // namespace

std::optional<Sizes> BroadcastSizes(const Sizes& a, const Sizes& b) {
  const Sizes &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
  Sizes result = longer;
  const size_t skip = longer.size() - shorter.size();
  for (size_t d = 0; d < shorter.size(); ++d) {
    Expr& size = result[skip + d];
    if (size == shorter[d] || sym::IsOne(shorter[d])) continue;
    if (sym::IsOne(size)) {
      size = shorter[d];
    } else if (!sym::MayBeEqual(size, shorter[d])) {
      return std::nullopt;
    }
  }
  return result;
}

bool SameSizes(const Sizes& a, const Sizes& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

bool MayBeSameSizes(const Sizes& a, const Sizes& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), sym::MayBeEqual);
}

// ---- Sources

Tensor Builder::Make(Tensor::Impl impl) {
  Tensor t;
  t.impl_ = std::make_shared<const Tensor::Impl>(std::move(impl));
  return t;
}

BufferId Builder::NewBuffer(BufferKind kind, int number, DType dtype, Sizes sizes, Sizes strides,
                            std::string name) {
  if (IsComplex(dtype)) {
    for (Expr& stride : strides) stride *= Expr(2);
    sizes.push_back(Expr(2));
    strides.push_back(Expr(1));
  }
  program_.buffers.push_back({.kind = kind,
                              .number = number,
                              .dtype = PartType(dtype),
                              .device = device_,
                              .sizes = std::move(sizes),
                              .strides = std::move(strides),
                              .is_complex = IsComplex(dtype),
                              .name = std::move(name)});
  return static_cast<BufferId>(program_.buffers.size()) - 1;
}

Tensor Builder::FromView(BufferView view, DType dtype) {
  Tensor::Impl impl{.dtype = dtype, .sizes = view.sizes};
  view.is_complex = IsComplex(dtype);
  for (int part = 0; part < 2 && view.is_complex; ++part) {
    BufferView of_part = ViewOfParts(view);
    of_part.sizes.pop_back();
    of_part.strides.pop_back();
    of_part.offset += Expr(part);
    impl.parts.push_back(FromView(std::move(of_part), PartType(dtype)));
  }
  impl.body = [buffer = view.buffer, offset = view.offset, strides = view.strides, dtype](
                  Recorder& ops, Index index) {
    return ops.Load(buffer, dtype, Linear(offset, strides, index));
  };
  impl.device = program_.buffers[view.buffer].device;
  impl.view = std::move(view);
  impl.reads = 1;
  return Make(std::move(impl));
}

Tensor Builder::Input(int number, v1::DeviceType device, DType dtype, Sizes sizes, Sizes strides,
                      std::string name) {
  const BufferId id = NewBuffer(BufferKind::kInput, number, dtype, sizes, strides, std::move(name));
  program_.buffers[id].device = device;
  return FromView({id, std::move(sizes), std::move(strides), Expr(0)}, dtype);
}

Tensor Builder::ConstantBuffer(int number, DType dtype, Sizes sizes, Sizes strides,
                               std::string name) {
  const BufferId id =
      NewBuffer(BufferKind::kConstant, number, dtype, sizes, strides, std::move(name));
  return FromView({id, std::move(sizes), std::move(strides), Expr(0)}, dtype);
}

Tensor Builder::Full(DType dtype, Sizes sizes, double value) {
  return Pointwise(dtype, std::move(sizes), {}, 0,
                   [=](Recorder& ops, Index) { return ops.Constant(value, dtype); });
}

Tensor Builder::FullInt(DType dtype, Sizes sizes, int64_t value) {
  return Pointwise(dtype, std::move(sizes), {}, 0,
                   [=](Recorder& ops, Index) { return ops.ConstantInt(value, dtype); });
}

// ---- Pointwise

Tensor Builder::Pointwise(DType dtype, Sizes sizes, const std::vector<Tensor>& inputs, int cost,
                          Body body) {
  if (IsComplex(dtype)) {
    const auto of_part = [&](int part) {
      return Pointwise(PartType(dtype), sizes, {}, 0, [body, part](Recorder& ops, Index index) {
        const PartScope scope(ops, part);
        return body(ops, index);
      });
    };
    return Complex(of_part(0), of_part(1), inputs, cost);
  }
  Tensor::Impl impl{.dtype = dtype, .sizes = std::move(sizes), .body = std::move(body)};
  impl.device = device_;
  impl.cost = cost;
  for (const Tensor& input : inputs) {
    impl.cost += input.cost();
    impl.reads += input.reads();
  }
  return Make(std::move(impl));
}

Tensor Builder::Map(Op op, const std::vector<Tensor>& operands, DType dtype) {
  Sizes sizes = operands[0].sizes();
  for (const Tensor& t : operands) {
    auto both = BroadcastSizes(sizes, t.sizes());
    TENSORD_CHECK(both.has_value(), "operands do not broadcast");
    sizes = *both;
  }
  std::vector<Tensor> expanded;
  for (const Tensor& t : operands) expanded.push_back(Expand(t, sizes));
  const OpInfo& info = InfoOf(op);
  if (dtype == v1::DTYPE_UNSPECIFIED) {
    switch (info.result) {
      case OpResult::Same:
        dtype = operands[0].dtype();
        break;
      case OpResult::Bool:
        dtype = kBool;
        break;
      case OpResult::Second:
        dtype = operands[1].dtype();
        break;
      case OpResult::Float32:
        dtype = kFloat32;
        break;
    }
  }
  return Pointwise(dtype, sizes, operands, info.cost,
                   [op, expanded, dtype](Recorder& ops, Index index) {
                     std::vector<Value> args;
                     for (const Tensor& t : expanded) args.push_back(t.Load(ops, index));
                     Value result = ops.Compute(op, std::move(args));
                     const DType compute = ComputeType(dtype);
                     return result.dtype == compute ? result : ops.Cast(result, compute);
                   });
}

Tensor Builder::Complex(const Tensor& real, const Tensor& imaginary,
                        const std::vector<Tensor>& inputs, int cost) {
  Tensor::Impl impl{.dtype = ComplexType(real.dtype()), .sizes = real.sizes()};
  impl.device = real.device();
  impl.cost = cost;
  for (const Tensor& input : inputs) {
    impl.cost += input.cost();
    impl.reads += input.reads();
  }
  // Whoever wants one part wants, sooner or later, the other, and most of what they are made of is
  // one.
  for (const Tensor& part : {real, imaginary}) {
    Tensor::Impl of_part = *part.impl_;
    of_part.cost = impl.cost;
    of_part.reads = impl.reads;
    impl.parts.push_back(Make(std::move(of_part)));
  }
  return Make(std::move(impl));
}

Tensor Builder::Cast(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  if (IsComplex(t.dtype()) || IsComplex(dtype)) return CastComplex(t, dtype);
  return Pointwise(dtype, t.sizes(), {t}, 1, [t, dtype](Recorder& ops, Index index) {
    return ops.Cast(t.Load(ops, index), dtype);
  });
}

Tensor Builder::Rounded(const Tensor& t) {
  if (!Rounds(t.dtype()) || t.view()) return t;
  return Pointwise(t.dtype(), t.sizes(), {t}, 1, [t](Recorder& ops, Index index) {
    return ops.Cast(t.Load(ops, index), t.dtype());
  });
}

Tensor Builder::CastComplex(const Tensor& t, DType dtype) {
  const DType part = PartType(dtype);
  if (!IsComplex(t.dtype())) {
    return Complex(Cast(t, part), Full(part, t.sizes(), 0), {t}, 1);
  }
  if (IsComplex(dtype)) return Complex(Cast(t.part(0), part), Cast(t.part(1), part), {t}, 2);
  if (dtype != kBool) {  // a copy, also where it converts nothing
    return Pointwise(dtype, t.sizes(), {t}, 1,
                     [real = t.part(0), dtype](Recorder& ops, Index index) {
                       return ops.Cast(real.Load(ops, index), dtype);
                     });
  }
  return Map(Op::k_logical_or, {Cast(t.part(0), kBool), Cast(t.part(1), kBool)});
}

Tensor Builder::Where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return Map(Op::k_where, {condition, a, b});
}

// ---- Reductions

namespace {

// Splits dimensions into kept and reduced ones; gives the index of the input for loop variables.
struct ReduceLoops {
  Sizes kept, reduced;
  std::vector<Expr> input_index;
  std::vector<int> dims;  // sorted
};

ReduceLoops SplitDims(const Sizes& sizes, std::vector<int> dims) {
  ReduceLoops loops;
  if (dims.empty()) {
    dims.resize(sizes.size());
    std::iota(dims.begin(), dims.end(), 0);
  }
  std::sort(dims.begin(), dims.end());
  const auto is_reduced = [&](int d) { return std::binary_search(dims.begin(), dims.end(), d); };
  const int rank = static_cast<int>(sizes.size());
  for (int d = 0; d < rank; ++d) (is_reduced(d) ? loops.reduced : loops.kept).push_back(sizes[d]);
  int next_kept = 0, next_reduced = static_cast<int>(loops.kept.size());
  for (int d = 0; d < rank; ++d) {
    loops.input_index.push_back(Expr::Loop(is_reduced(d) ? next_reduced++ : next_kept++, sizes[d]));
  }
  loops.dims = std::move(dims);
  return loops;
}

}  // namespace

Tensor Builder::Reduce(ReduceKind kind, const Tensor& t, std::vector<int> dims, bool keepdim,
                       DType dtype) {
  if (Rounds(dtype)) {
    return Cast(Reduce(kind, t, std::move(dims), keepdim, ComputeType(dtype)), dtype);
  }
  if (IsComplex(t.dtype())) {
    TENSORD_CHECK(kind == ReduceKind::kSum && IsComplex(dtype), "complex numbers are summed only");
    const auto sum = [&](int part) {
      return Reduce(kind, t.part(part), dims, keepdim, PartType(dtype));
    };
    const Tensor real = sum(0), imaginary = sum(1);
    return Complex(real, imaginary, {real, imaginary}, 0);
  }
  ReduceLoops loops = SplitDims(t.sizes(), std::move(dims));
  const bool is_arg = kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax;
  const bool is_logic = kind == ReduceKind::kAny || kind == ReduceKind::kAll;
  // A zero-dim tensor reduces over one element.
  if (loops.reduced.empty()) loops.reduced.push_back(Expr(1));
  LoopOp op{.sizes = loops.kept, .reduce_sizes = loops.reduced, .origin = origin_};
  Recorder ops(&op.block);
  Value value = t.Load(ops, loops.input_index);
  if (is_logic) {
    value = ops.Cast(value, kBool);
  } else if (!is_arg) {
    value = ops.Cast(value, ComputeType(dtype));
  }
  const DType result_type = is_arg ? kInt64 : is_logic ? kBool : dtype;
  const Sizes strides = ContiguousStrides(loops.kept);
  const BufferId id =
      NewBuffer(BufferKind::kComputed, -1, result_type, loops.kept, strides, origin_);
  const std::vector<Expr> kept = LoopVariables(loops.kept, 0);
  op.reductions.push_back({kind, value.id, {id}, {Linear(Expr(0), strides, kept)}});
  program_.operations.push_back(std::move(op));
  Tensor result = FromView({id, loops.kept, strides, Expr(0)}, result_type);
  if (keepdim) {
    for (int d : loops.dims) result = Unsqueeze(result, d);
  }
  return result;
}

std::pair<Tensor, Tensor> Builder::ReducePair(ReduceKind kind, const Tensor& t,
                                              std::vector<int> dims, bool keepdim) {
  ReduceLoops loops = SplitDims(t.sizes(), std::move(dims));
  if (loops.reduced.empty()) loops.reduced.push_back(Expr(1));
  LoopOp op{.sizes = loops.kept, .reduce_sizes = loops.reduced, .origin = origin_};
  Recorder ops(&op.block);
  const Value value = t.Load(ops, loops.input_index);
  const Sizes strides = ContiguousStrides(loops.kept);
  const Expr index = Linear(Expr(0), strides, LoopVariables(loops.kept, 0));
  Reduction reduction{.kind = kind, .value = value.id, .indices = {index, index}};
  Tensor results[2];
  for (Tensor& result : results) {
    const BufferId id =
        NewBuffer(BufferKind::kComputed, -1, value.dtype, loops.kept, strides, origin_);
    reduction.results.push_back(id);
    result = FromView({id, loops.kept, strides, Expr(0)}, value.dtype);
    if (keepdim && t.rank() > 0) {  // a zero-dim tensor has nothing to keep
      for (int d : loops.dims) result = Unsqueeze(result, d);
    }
  }
  op.reductions.push_back(std::move(reduction));
  program_.operations.push_back(std::move(op));
  return {results[0], results[1]};
}

void Builder::Scan(const Tensor& t, int dim, const std::vector<Tensor>& results,
                   const ScanBody& body) {
  const ReduceLoops loops = SplitDims(t.sizes(), {dim});
  LoopOp op{.sizes = loops.kept, .reduce_sizes = loops.reduced, .origin = origin_};
  Recorder ops(&op.block);
  const std::vector<Value> values =
      body(ops, t.Load(ops, loops.input_index), loops.input_index[dim]);
  for (size_t r = 0; r < results.size(); ++r) {
    const BufferView& view = *results[r].view();
    const DType dtype = results[r].dtype();
    op.stores.push_back(
        {.buffer = view.buffer,
         .index = Linear(view.offset, view.strides, loops.input_index),
         .value = ops.Cast(values[r], Rounds(dtype) ? dtype : ComputeType(dtype)).id});
  }
  program_.operations.push_back(std::move(op));
}

// ---- Buffers

Tensor Builder::Realize(const Tensor& t) {
  return t.view() ? t : RealizeAs(t, ContiguousStrides(t.sizes()));
}

Tensor Builder::RealizeAs(const Tensor& t, const Sizes& strides) {
  if (t.view() && SameSizes(t.view()->strides, strides)) return t;
  const BufferId id = NewBuffer(BufferKind::kComputed, -1, t.dtype(), t.sizes(), strides, origin_);
  const Tensor result = FromView({id, t.sizes(), strides, Expr(0)}, t.dtype());
  Assign(result, t);
  return result;
}

Tensor Builder::RealizeParts(const Tensor& t) {
  const Tensor real = Realize(t.part(0)), imaginary = Realize(t.part(1));
  Tensor::Impl impl{.dtype = t.dtype(), .sizes = t.sizes(), .parts = {real, imaginary}};
  impl.reads = 1;
  impl.device = t.device();
  return Make(std::move(impl));
}

Tensor Builder::Allocate(DType dtype, Sizes sizes, Sizes strides) {
  if (strides.empty()) strides = ContiguousStrides(sizes);
  const BufferId id = NewBuffer(BufferKind::kComputed, -1, dtype, sizes, strides, origin_);
  return FromView({id, std::move(sizes), strides, Expr(0)}, dtype);
}

void Builder::Assign(const Tensor& destination, const Tensor& source) {
  const bool is_complex = IsComplex(destination.dtype()) || IsComplex(source.dtype());
  const Tensor cast = is_complex ? Cast(source, destination.dtype()) : source;
  const Tensor expanded = Expand(cast, destination.sizes());
  Scatter(
      destination, destination.sizes(), StoreMode::kAssign,
      [](Recorder&, Index index) { return std::vector<Expr>(index.begin(), index.end()); },
      [expanded](Recorder& ops, Index index) { return expanded.Load(ops, index); });
}

void Builder::Scatter(const Tensor& destination, const Sizes& sizes, StoreMode mode,
                      std::function<std::vector<Expr>(Recorder&, Index)> where, const Body& value,
                      const Body& when) {
  TENSORD_CHECK(destination.view().has_value(), "a store needs a realized destination");
  const BufferView& view = *destination.view();
  LoopOp op{.sizes = sizes, .origin = origin_};
  Recorder ops(&op.block);
  const std::vector<Expr> loops = LoopVariables(sizes, 0);
  const std::vector<Expr> target = where(ops, loops);
  const DType compute = ComputeType(destination.dtype());
  const bool rounds = mode == StoreMode::kAssign && Rounds(destination.dtype());
  const auto converted = [&] {
    const Value stored = value(ops, loops);
    if (rounds) return ops.Cast(stored, destination.dtype());
    return stored.dtype == compute ? stored : ops.Cast(stored, compute);
  };
  const Expr element = Linear(view.offset, view.strides, target);
  const int parts = view.is_complex ? 2 : 1;
  for (int part = 0; part < parts; ++part) {
    const PartScope scope(ops, part);
    Store store{.buffer = view.buffer, .index = element * parts + part, .mode = mode};
    if (when) {
      store.guard = when(ops, loops).id;
      store.value = ops.Masked({store.guard, kBool}, converted, ops.Constant(0, compute)).id;
    } else {
      store.value = converted().id;
    }
    op.stores.push_back(std::move(store));
  }
  program_.operations.push_back(std::move(op));
}

Tensor Builder::Concat(const std::vector<Tensor>& parts, int dim, DType dtype,
                       const Sizes& strides) {
  Sizes sizes = parts[0].sizes();
  for (size_t i = 1; i < parts.size(); ++i) sizes[dim] += parts[i].sizes()[dim];
  const Tensor whole = Allocate(dtype, sizes, strides);
  Expr start(0);
  for (const Tensor& part : parts) {
    const Expr length = part.sizes()[dim];
    if (!length.Is(0)) Assign(Slice(whole, dim, start, length, 1), part);
    start += length;
  }
  return whole;
}

// ---- Library operators

BufferView Builder::ViewOf(const Tensor& t) { return *Realize(t).view(); }

ExternArg Builder::TensorArg(const Tensor& t) { return {ViewOf(t)}; }

std::vector<Tensor> Builder::Extern(std::string op, std::string overload, ExternArgList args,
                                    const std::vector<ResultMeta>& results) {
  ExternOp call{.op = std::move(op),
                .overload = std::move(overload),
                .args = std::move(args),
                .origin = origin_};
  std::vector<Tensor> tensors;
  for (const ResultMeta& meta : results) {
    if (meta.dtype == v1::DTYPE_UNSPECIFIED) {
      call.results.push_back(-1);
      tensors.emplace_back();
      continue;
    }
    const BufferId id =
        NewBuffer(BufferKind::kExternResult, -1, meta.dtype, meta.sizes, meta.strides, origin_);
    call.results.push_back(id);
    tensors.push_back(FromView({id, meta.sizes, meta.strides, Expr(0)}, meta.dtype));
  }
  program_.operations.push_back(std::move(call));
  return tensors;
}

Tensor Builder::ProductsOfRows(RowProducts of) {
  const Sizes sizes = {of.a.sizes()[0], of.a.sizes()[1], of.a.sizes()[2], of.b.sizes()[2]};
  const Sizes strides = ContiguousStrides(sizes);
  const BufferId id = NewBuffer(BufferKind::kComputed, -1, kFloat32, sizes, strides, origin_);
  products_.emplace(id, std::move(of));
  return Pointwise(kFloat32, sizes, {}, 0, [=](Recorder& ops, Index index) {
    return ops.Load(id, kFloat32, Linear(Expr(0), strides, index));
  });
}

const Builder::RowProducts* Builder::ProductsIn(BufferId products) const {
  const auto it = products_.find(products);
  return it == products_.end() ? nullptr : &it->second;
}

LoopOp Builder::LoopOver(const Tensor& t, Recorder::Precision precision) {
  LoopOp op{.sizes = t.sizes(), .origin = origin_};
  Recorder ops(&op.block, 0, precision);
  const std::vector<Expr> loops = LoopVariables(t.sizes(), 0);
  const Sizes strides = ContiguousStrides(t.sizes());
  const BufferId all = NewBuffer(BufferKind::kComputed, -1, t.dtype(), t.sizes(), strides, origin_);
  const Value value = t.Load(ops, loops);
  op.stores.push_back({.buffer = all, .index = Linear(Expr(0), strides, loops), .value = value.id});
  return op;
}

void Builder::AttentionInto(std::string op, ExternArgList args, const std::vector<Tensor>& results,
                            Attention attention) {
  ExternOp call{.op = std::move(op), .args = std::move(args), .origin = origin_};
  for (const Tensor& result : results) {
    call.results.push_back(result.view()->buffer);
    call.outs.push_back(*result.view());
  }
  call.attention = std::make_shared<const Attention>(std::move(attention));
  program_.operations.push_back(std::move(call));
}

Tensor Builder::ExternOut(std::string op, std::string overload, ExternArgList args,
                          ResultMeta result) {
  const Tensor tensor = Allocate(result.dtype, result.sizes, result.strides);
  ExternInto(std::move(op), std::move(overload), std::move(args), tensor);
  return tensor;
}

void Builder::ExternInto(std::string op, std::string overload, ExternArgList args,
                         const Tensor& result, int overwrites) {
  program_.operations.push_back(ExternOp{.op = std::move(op),
                                         .overload = std::move(overload),
                                         .args = std::move(args),
                                         .results = {result.view()->buffer},
                                         .outs = {*result.view()},
                                         .overwrites = overwrites,
                                         .origin = origin_});
}

}  // namespace tensord::compiler
