// SPDX-License-Identifier: Apache-2.0
// What the normalizations share (norm.cc, batch_norm.cc).
#ifndef TENSORD_COMPILER_DECOMPOSE_OPERATORS_NORM_COMMON_H_
#define TENSORD_COMPILER_DECOMPOSE_OPERATORS_NORM_COMMON_H_

#include <optional>
#include <vector>

#include "compiler/decompose/expressions.h"

namespace tensord::compiler {

// 1 / sqrt(squares / count + eps), of the moments' sizes.
Tensor RstdOf(Builder& b, const Moments& moments, const Expr& count, double eps);
// (x - mean) * rstd * weight + bias, all broadcast against x.
Tensor Normalized(Builder& b, DType dtype, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                  const std::optional<Tensor>& weight, const std::optional<Tensor>& bias);
// x * y in the compute types, lazily.
Tensor Times(Builder& b, DType dtype, const Tensor& x, const Tensor& y);
// InvalidArgument unless an output mask has `n` entries.
absl::Status CheckMask(const std::vector<int64_t>& mask, size_t n);

// ---- batch_norm.cc: lowerings, listed in norm.cc's table
Results BatchNormLegit(Builder& b, const Call& call);
Results BatchNormNoStats(Builder& b, const Call& call);
Results BatchNormFunctional(Builder& b, const Call& call);
Results BatchNormNoTraining(Builder& b, const Call& call);
Results BatchNormWithUpdateFunctional(Builder& b, const Call& call);
Results BatchNormNoUpdate(Builder& b, const Call& call);
Results BatchNormBackward(Builder& b, const Call& call);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_OPERATORS_NORM_COMMON_H_
