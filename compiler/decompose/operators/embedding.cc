// SPDX-License-Identifier: Apache-2.0
// Rows of a table by tokens, and the table's gradient.
//
// Adding each token's gradient to a table of zeros writes the table twice where it has been added,
// and reads it between. A large table on a GPU is written once instead. One of a row's tokens, no
// matter which, leaves its number at the row; then every row is written: with that token's
// gradient, or zeros where it has none; and what other tokens of the row there are is added.
#include "compiler/decompose/operators/indexing.h"

namespace tensord::compiler {
namespace {

// Smaller tables stay in the cache between a write and an addition.
constexpr int64_t kLeastTableBytes = int64_t{32} << 20;

struct TableGradient {
  Tensor grad;    // [..., width]
  Tensor tokens;  // [...]: rows of the table
  Expr rows;
  int64_t padding;  // a row without a gradient, or negative
  IndexRule rule;   // of tokens

  Sizes sizes() const { return {rows, grad.sizes().back()}; }
  // The row of a token, which is checked where it has a gradient.
  Expr RowOf(Recorder& ops, Index token) const {
    std::optional<Value> when;
    if (rule.is_checked && padding >= 0) when = Counts(ops, token);
    return ops.Indirect(tokens.Load(ops, token), rows, rule, when);
  }
  // Whether a token has a gradient, where it also holds that `other`.
  Value Counts(Recorder& ops, Index token, const std::optional<Value>& other = {}) const {
    if (padding < 0) return *other;
    const Value row = ops.Cast(tokens.Load(ops, token), kInt64);
    const Value counts = ops.Compute(Op::k_ne, {row, ops.ConstantInt(padding, kInt64)});
    return other ? ops.Compute(Op::k_logical_and, {*other, counts}) : counts;
  }
};

Index TokenOf(Index index) { return index.first(index.size() - 1); }

// Adds the gradients of all tokens for which `when` holds.
void AddTokens(Builder& b, const TableGradient& t, const Tensor& total, const Body& when) {
  b.Scatter(
      total, t.grad.sizes(), StoreMode::kAtomicAdd,
      [t](Recorder& ops, Index index) {
        return std::vector<Expr>{t.RowOf(ops, TokenOf(index)), index.back()};
      },
      [t](Recorder& ops, Index index) { return t.grad.Load(ops, index); }, when);
}

// `start` and the gradients of all tokens.
Tensor AddedTo(Builder& b, const TableGradient& t, const Tensor& start) {
  const Tensor total = b.Allocate(SumType(t.grad.dtype()), t.sizes());
  b.Assign(total, b.Cast(start, total.dtype()));
  if (t.rows.Is(0)) return total;
  Body when;
  if (t.padding >= 0) {
    when = [t](Recorder& ops, Index index) { return t.Counts(ops, TokenOf(index)); };
  }
  AddTokens(b, t, total, when);
  return total;
}

// The tokens in one dimension.
TableGradient Flat(Builder& b, TableGradient t) {
  const Expr count = sym::Product(t.tokens.sizes());
  t.grad = b.Reshape(t.grad, {count, t.grad.sizes().back()});
  t.tokens = b.Reshape(t.tokens, {count});
  return t;
}

Tensor WrittenOnce(Builder& b, TableGradient t) {
  const Expr count = t.tokens.sizes()[0];
  // Of rows without a token nothing is known: what lies there is no token of theirs.
  const Tensor chosen = b.Allocate(kInt64, {t.rows});
  b.Scatter(
      chosen, {count}, StoreMode::kAssign,
      [t](Recorder& ops, Index index) { return std::vector<Expr>{t.RowOf(ops, index)}; },
      [](Recorder& ops, Index index) { return ops.Index(index[0]); });
  t.rule = {};  // all tokens have been checked
  const auto first_of = [chosen](Recorder& ops, const Expr& row) {
    const std::vector<Expr> at{row};
    return chosen.Load(ops, at);
  };
  const Tensor total = b.Allocate(SumType(t.grad.dtype()), t.sizes());
  const Body of_row = [=](Recorder& ops, Index index) {
    const Expr first = ops.Indirect(first_of(ops, index[0]), count);
    const std::vector<Expr> token{first}, from{first, index[1]};
    const Value is_here =
        ops.Compute(Op::k_eq, {ops.Index(t.RowOf(ops, token)), ops.Index(index[0])});
    return ops.Masked(
        t.Counts(ops, token, is_here), [&] { return t.grad.Load(ops, from); },
        ops.Constant(0, ComputeType(t.grad.dtype())));
  };
  b.Assign(total, b.Pointwise(t.grad.dtype(), t.sizes(), {t.grad, t.tokens, chosen},
                              2 * kIndirectCost, of_row));
  AddTokens(b, t, total, [=](Recorder& ops, Index index) {
    const Value first = first_of(ops, t.RowOf(ops, TokenOf(index)));
    const Value is_other = ops.Compute(Op::k_ne, {first, ops.Index(index[0])});
    return t.Counts(ops, TokenOf(index), is_other);
  });
  return total;
}

// A gradient that is computed on its way to the table is added at once: it would have to be written
// before it could be read by rows. Which token is chosen differs from run to run.
bool PaysToWriteOnce(Builder& b, const TableGradient& t) {
  const int64_t bytes = sym::Hint(sym::Product(t.sizes())) * ItemSize(SumType(t.grad.dtype()));
  return b.device() == v1::DEVICE_TYPE_CUDA && !b.deterministic() && bytes >= kLeastTableBytes &&
         sym::ProvablyLess(Expr(0), sym::Product(t.tokens.sizes())) && t.grad.view().has_value() &&
         t.tokens.view().has_value();
}

// What is given of a table's gradient.
absl::StatusOr<TableGradient> TableGradientOf(const Builder& b, const Call& call) {
  const Tensor grad = call.tensor("grad_output"), indices = call.tensor("indices");
  TENSORD_RETURN_IF_ERROR(NeedIntegers(indices));
  if (grad.rank() == 0) return absl::InvalidArgumentError("the gradient needs a dimension");
  Sizes expected = indices.sizes();
  expected.push_back(grad.sizes().back());
  TENSORD_RETURN_IF_ERROR(CheckSizes("the gradient", grad, expected));
  return TableGradient{.grad = grad,
                       .tokens = indices,
                       .rows = call.integer("num_weights"),
                       .padding = call.constant("padding_idx"),
                       .rule = b.RuleFor(0)};
}

}  // namespace

Results Embedding(Builder& b, const Call& call) {
  const Tensor weight = RealizeIfExpensive(b, call.tensor("weight")),
               indices = call.tensor("indices");
  if (weight.rank() != 2) return absl::InvalidArgumentError("weight must have two dimensions");
  TENSORD_RETURN_IF_ERROR(NeedIntegers(indices));
  TENSORD_RETURN_IF_ERROR(NeedElements(weight.sizes()[0]));
  Sizes sizes = indices.sizes();
  sizes.push_back(weight.sizes()[1]);
  Body body = [weight, indices, rule = b.RuleFor(0)](Recorder& ops, Index index) {
    const Value row = indices.Load(ops, index.first(index.size() - 1));
    const std::vector<Expr> at{ops.Indirect(row, weight.sizes()[0], rule), index.back()};
    return weight.Load(ops, at);
  };
  return std::vector<Tensor>{
      b.Pointwise(weight.dtype(), sizes, {weight, indices}, kIndirectCost, std::move(body))};
}

Results EmbeddingBackward(Builder& b, const Call& call) {
  if (call.boolean("scale_grad_by_freq"))
    return absl::UnimplementedError("embedding scaled by frequency");
  TENSORD_ASSIGN_OR_RETURN(const TableGradient t, TableGradientOf(b, call));
  const Tensor total = PaysToWriteOnce(b, t)
                           ? WrittenOnce(b, Flat(b, t))
                           : AddedTo(b, t, b.Full(SumType(t.grad.dtype()), t.sizes(), 0));
  return std::vector<Tensor>{b.Cast(total, t.grad.dtype())};
}

// Self plus the table's gradient.
Results EmbeddingAdded(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const TableGradient t, TableGradientOf(b, call));
  const Tensor self = call.tensor("self");
  TENSORD_RETURN_IF_ERROR(CheckSizes("self", self, t.sizes()));
  return std::vector<Tensor>{b.Cast(AddedTo(b, t, self), self.dtype())};
}

}  // namespace tensord::compiler
