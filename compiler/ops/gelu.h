// SPDX-License-Identifier: Apache-2.0
// The tanh form of GELU ("Gaussian Error Linear Units", Hendrycks and Gimpel 2016).
#ifndef TENSORD_COMPILER_OPS_GELU_H_
#define TENSORD_COMPILER_OPS_GELU_H_

#include <cmath>
#include <numbers>

namespace tensord::compiler {

// 0.5 x (1 + tanh(kGeluBeta (x + kGeluKappa x^3))); kGeluBeta is sqrt(2 / pi), in torch's order.
inline constexpr double kGeluBeta = std::numbers::sqrt2 * (2 * std::numbers::inv_sqrtpi) * 0.5;
inline constexpr double kGeluKappa = 0.044715;

inline double GeluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(kGeluBeta * (x + kGeluKappa * (x * x * x))));
}

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_OPS_GELU_H_
