// Rows of a table by tokens, and the table's gradient.
//
// Adding each token's gradient to a table of zeros writes the table twice where it has been added,
// and reads it between. A large table on a GPU is written once instead. One of a row's tokens, no
// matter which, leaves its number at the row; then every row is written: with that token's
// gradient, or zeros where it has none; and what other tokens of the row there are is added.
#include <cstdlib>

#include "compiler/decompose/indexing.h"

namespace tensord::compiler {
namespace {

// Smaller tables stay in the cache between a write and an addition.
constexpr int64_t kLeastTableBytes = int64_t{32} << 20;

struct TableGradient {
  Tensor grad;    // [..., width]
  Tensor tokens;  // [...]: rows of the table
  Expr rows;
  int64_t padding;  // a row without a gradient, or negative

  Sizes sizes() const { return {rows, grad.sizes().back()}; }
  // The row of a token; numbers that are none are brought into range.
  Expr RowOf(Recorder& ops, Index token) const {
    return ops.Indirect(tokens.Load(ops, token), rows, /*wrap=*/false);
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

Tensor AddedToZeros(Builder& b, const TableGradient& t) {
  const Tensor total = b.Allocate(SumType(t.grad.dtype()), t.sizes());
  b.Assign(total, b.Full(total.dtype(), t.sizes(), 0));
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

// Temporary: two tokens of each row are noted.
bool NotesTwo() {
  const char* text = std::getenv("TENSORD_X_EMB");
  return text != nullptr && std::atoi(text) == 2;
}

Tensor WrittenOnce(Builder& b, const TableGradient& t) {
  const Expr count = t.tokens.sizes()[0];
  // Of rows without a token nothing is known: what lies there is no token of theirs.
  const Tensor chosen = b.Allocate(kInt64, {t.rows});
  b.Scatter(
      chosen, {count}, StoreMode::kAssign,
      [t](Recorder& ops, Index index) { return std::vector<Expr>{t.RowOf(ops, index)}; },
      [](Recorder& ops, Index index) { return ops.Index(index[0]); });
  const auto first_of = [chosen](Recorder& ops, const Expr& row) {
    const std::vector<Expr> at{row};
    return chosen.Load(ops, at);
  };
  if (NotesTwo()) {
    const Tensor second = b.Allocate(kInt64, {t.rows});
    const auto is_other = [=](Recorder& ops, Index index) {
      const Value first = first_of(ops, t.RowOf(ops, index));
      return t.Counts(ops, index, ops.Compute(Op::k_ne, {first, ops.Index(index[0])}));
    };
    b.Scatter(
        second, {count}, StoreMode::kAssign,
        [t](Recorder& ops, Index index) { return std::vector<Expr>{t.RowOf(ops, index)}; },
        [](Recorder& ops, Index index) { return ops.Index(index[0]); }, is_other);
    const Tensor total = b.Allocate(SumType(t.grad.dtype()), t.sizes());
    const Body of_row = [=](Recorder& ops, Index index) {
      const Expr first = ops.Indirect(first_of(ops, index[0]), count, /*wrap=*/false);
      const std::vector<Expr> row{index[0]};
      const Expr other = ops.Indirect(second.Load(ops, row), count, /*wrap=*/false);
      const auto gradient = [&](const Expr& token, const std::optional<Value>& besides) {
        const std::vector<Expr> at{token}, from{token, index[1]};
        Value is_here = ops.Compute(Op::k_eq, {ops.Index(t.RowOf(ops, at)), ops.Index(index[0])});
        if (besides) is_here = ops.Compute(Op::k_logical_and, {is_here, *besides});
        return ops.Masked(
            t.Counts(ops, at, is_here), [&] { return t.grad.Load(ops, from); },
            ops.Constant(0, ComputeType(t.grad.dtype())));
      };
      const Value differ = ops.Compute(Op::k_ne, {ops.Index(first), ops.Index(other)});
      return ops.Compute(Op::k_add, {gradient(first, {}), gradient(other, differ)});
    };
    b.Assign(total, b.Pointwise(t.grad.dtype(), t.sizes(), {t.grad, t.tokens, chosen, second},
                                4 * kIndirectCost, of_row));
    AddTokens(b, t, total, [=](Recorder& ops, Index index) {
      const std::vector<Expr> token{index[0]};
      const std::vector<Expr> row{t.RowOf(ops, token)};
      const Value is_third = ops.Compute(Op::k_ne, {second.Load(ops, row), ops.Index(index[0])});
      return ops.Compute(Op::k_logical_and, {is_other(ops, token), is_third});
    });
    return total;
  }
  const Tensor total = b.Allocate(SumType(t.grad.dtype()), t.sizes());
  const Body of_row = [=](Recorder& ops, Index index) {
    const Expr first = ops.Indirect(first_of(ops, index[0]), count, /*wrap=*/false);
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

}  // namespace

// (weight, indices, padding_idx, scale_grad_by_freq, sparse)
Results Embedding(Builder& b, const Call& call) {
  const Tensor weight = Shared(b, call.tensor(0)), indices = call.tensor(1);
  if (weight.rank() != 2) return absl::InvalidArgumentError("weight must have two dimensions");
  TENSORD_RETURN_IF_ERROR(NeedIntegers(indices));
  Sizes sizes = indices.sizes();
  sizes.push_back(weight.sizes()[1]);
  Body body = [weight, indices](Recorder& ops, Index index) {
    const Value row = indices.Load(ops, index.first(index.size() - 1));
    const std::vector<Expr> at{ops.Indirect(row, weight.sizes()[0], /*wrap=*/false), index.back()};
    return weight.Load(ops, at);
  };
  return std::vector<Tensor>{
      b.Pointwise(weight.dtype(), sizes, {weight, indices}, kIndirectCost, std::move(body))};
}

// (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
Results EmbeddingBackward(Builder& b, const Call& call) {
  const Tensor grad = call.tensor(0), indices = call.tensor(1);
  if (call.boolean(4)) return absl::UnimplementedError("embedding scaled by frequency");
  TENSORD_RETURN_IF_ERROR(NeedIntegers(indices));
  if (grad.rank() == 0) return absl::InvalidArgumentError("the gradient needs a dimension");
  Sizes expected = indices.sizes();
  expected.push_back(grad.sizes().back());
  TENSORD_RETURN_IF_ERROR(CheckSizes("the gradient", grad, expected));
  const TableGradient t{
      .grad = grad, .tokens = indices, .rows = call.integer(2), .padding = call.constant(3)};
  const Tensor total = PaysToWriteOnce(b, t) ? WrittenOnce(b, Flat(b, t)) : AddedToZeros(b, t);
  return std::vector<Tensor>{b.Cast(total, grad.dtype())};
}

}  // namespace tensord::compiler
