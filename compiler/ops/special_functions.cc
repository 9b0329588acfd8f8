// SPDX-License-Identifier: Apache-2.0
// Special functions, element by element, of operands that broadcast.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

// A polynomial at x, of a degree n that is a number like x.
#define POLYNOMIAL(name)                                         \
  {"aten::special_" name "(Tensor x, Tensor n)"},                \
      {"aten::special_" name ".x_scalar(Scalar x, Tensor n)"}, { \
    "aten::special_" name ".n_scalar(Tensor x, Scalar n)"        \
  }

constexpr OperatorRow kSpecialFunctionsRows[] = {
    // Orthogonal polynomials
    POLYNOMIAL("chebyshev_polynomial_t"),
    POLYNOMIAL("chebyshev_polynomial_u"),
    POLYNOMIAL("chebyshev_polynomial_v"),
    POLYNOMIAL("chebyshev_polynomial_w"),
    POLYNOMIAL("shifted_chebyshev_polynomial_t"),
    POLYNOMIAL("shifted_chebyshev_polynomial_u"),
    POLYNOMIAL("shifted_chebyshev_polynomial_v"),
    POLYNOMIAL("shifted_chebyshev_polynomial_w"),
    POLYNOMIAL("hermite_polynomial_h"),
    POLYNOMIAL("hermite_polynomial_he"),
    POLYNOMIAL("laguerre_polynomial_l"),
    POLYNOMIAL("legendre_polynomial_p"),
    // Bessel and Airy functions
    {"aten::special_bessel_j0(Tensor self)"},
    {"aten::special_bessel_j1(Tensor self)"},
    {"aten::special_bessel_y0(Tensor self)"},
    {"aten::special_bessel_y1(Tensor self)"},
    {"aten::special_modified_bessel_i0(Tensor self)"},
    {"aten::special_modified_bessel_i1(Tensor self)"},
    {"aten::special_modified_bessel_k0(Tensor self)"},
    {"aten::special_modified_bessel_k1(Tensor self)"},
    {"aten::special_scaled_modified_bessel_k0(Tensor x)"},
    {"aten::special_scaled_modified_bessel_k1(Tensor x)"},
    {"aten::special_spherical_bessel_j0(Tensor x)"},
    {"aten::special_airy_ai(Tensor x)"},
    {"aten::i0(Tensor self)"},
    {"aten::special_i0e(Tensor self)"},
    {"aten::special_i1(Tensor self)"},
    {"aten::special_i1e(Tensor self)"},
    // Of the normal distribution
    {"aten::special_erfcx(Tensor self)"},
    {"aten::special_ndtri(Tensor self)"},
    // Gamma and zeta
    {"aten::polygamma(int n, Tensor self)"},
    {"aten::special_zeta(Tensor self, Tensor other)"},
    {"aten::special_zeta.other_scalar(Tensor self, Scalar other)"},
    {"aten::special_zeta.self_scalar(Scalar self, Tensor other)"},
    {"aten::igamma(Tensor self, Tensor other)"},
    {"aten::igammac(Tensor self, Tensor other)"},
};

}  // namespace

OperatorTable SpecialFunctionTable() { return {OperatorKind::kPointwise, kSpecialFunctionsRows}; }

}  // namespace tensord::compiler
