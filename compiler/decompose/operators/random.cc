// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: the value of an element depends on the seed, the stream and the
// element's row-major position alone, so a backward pass can compute it again.
#include "compiler/decompose/expressions.h"

namespace tensord::compiler {
namespace {

template <Op op>
Results Philox(Builder& b, const Call& call) {
  const Tensor seed = call.tensor("seed");
  const Sizes sizes = call.integers("size");
  const std::optional<DType> dtype = call.dtype("dtype");
  const int64_t stream = call.constant("stream");
  if (seed.rank() != 0 || seed.dtype() != kInt64) {
    return absl::InvalidArgumentError("the seed must be one int64");
  }
  if (!dtype || !IsFloating(*dtype)) return absl::InvalidArgumentError("dtype must be floating");
  const Sizes strides = ContiguousStrides(sizes);
  Body body = [seed, strides, stream, dtype = *dtype](Recorder& ops, Index index) {
    Expr element(0);
    for (size_t d = 0; d < strides.size(); ++d) element += index[d] * strides[d];
    const Value number =
        ops.Compute(op, {seed.Load(ops, {}), ops.ConstantInt(stream, kInt64), ops.Index(element)});
    return ops.Cast(number, dtype);
  };
  return std::vector<Tensor>{b.Pointwise(*dtype, sizes, {seed}, InfoOf(op).cost, std::move(body))};
}

// The operand itself; the kernel that reads it looks at what eager has in memory: of narrow floats
// a rounded number.
template <DataCheck check>
Results Checked(Builder& b, const Call& call) {
  const Tensor x = call.tensor("x");
  const DType dtype = x.dtype();
  if (!IsFloating(dtype)) return absl::InvalidArgumentError("checks floating numbers alone");
  const bool checks = b.checks_data(check);
  return std::vector<Tensor>{Elementwise(
      b, dtype, {x}, [=](Elem v) { return checks ? v.Stored(dtype).Checked(check) : v; })};
}

// tensord::seed is absent on purpose: it draws from torch's generator, so it is a library call.
constexpr Lowering kRandomLowerings[] = {
    {"tensord::philox_uniform", Philox<Op::k_philox_uniform>},
    {"tensord::philox_normal", Philox<Op::k_philox_normal>},
    {"tensord::checked_probability", Checked<DataCheck::kDrawnProbability>},
    {"tensord::checked_deviation", Checked<DataCheck::kDeviation>},
};

}  // namespace

std::span<const Lowering> RandomLowerings() { return kRandomLowerings; }

}  // namespace tensord::compiler
