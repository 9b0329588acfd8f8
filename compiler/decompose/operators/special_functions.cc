// SPDX-License-Identifier: Apache-2.0
// Special functions: the table of those that are one scalar operation, and the formulas of the
// rest. What eager does not take in narrow floats, or in integers, is left to the library, which
// says so.
#include <cmath>
#include <limits>

#include "compiler/decompose/operators/pointwise_cores.h"

namespace tensord::compiler {
namespace {

using Elems = std::span<const Elem>;

bool IsWide(DType dtype) { return dtype == kFloat32 || dtype == kFloat64; }

// f of all operands in their common floating type, which must be float32 or float64.
OneResult EmitWide(Builder& b, Operands args, DType declared, const Formula& f) {
  const DType dtype = FloatCommonType(args, declared);
  if (!IsWide(dtype)) return absl::UnimplementedError("a special function of a narrow float");
  return Emit(b, dtype, ToTensors(b, args, dtype), f);
}

template <Op op>
OneResult Wide1(Builder& b, Operands args, DType declared) {
  return EmitWide(b, args, declared, [](Elems v) { return Apply(op, v[0]); });
}
template <Op op>
OneResult Wide2(Builder& b, Operands args, DType declared) {
  return EmitWide(b, args, declared, [](Elems v) { return Apply(op, v[0], v[1]); });
}
// A polynomial that is orthogonal in (0, 1), not (-1, 1).
template <Op op>
OneResult Shifted(Builder& b, Operands args, DType declared) {
  return EmitWide(b, args, declared, [](Elems v) { return Apply(op, v[0] + v[0] - 1.0, v[1]); });
}

// Of floats alone, and on a GPU of wide ones.
template <Op op>
OneResult IncompleteGamma(Builder& b, Operands args, DType declared) {
  if (!IsFloating(CommonType(args, v1::DTYPE_UNSPECIFIED))) {
    return absl::UnimplementedError("an incomplete gamma function of integers");
  }
  if (b.device() == v1::DEVICE_TYPE_CUDA) return Wide2<op>(b, args, declared);
  return FloatBinary(b, args, declared, op);
}

// sin(x) / x, near 0 by its power series.
OneResult SphericalBesselJ0(Builder& b, Operands args, DType declared) {
  return EmitWide(b, args, declared, [](Elems v) {
    const Elem x = v[0], z = x * x;
    Elem series = z / 156.0;
    for (int n = 10; n > 0; n -= 2) series = (1.0 - series) * z / static_cast<double>(n * (n + 1));
    const Elem quotient = Select(Equal(Abs(x), std::numeric_limits<double>::infinity()), 0.0,
                                 Apply(Op::k_sin, x) / x);
    return Select(Abs(x) < 0.5, 1.0 - series, quotient);
  });
}

// The n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x).
Results Polygamma(Builder& b, const Call& call) {
  if (!call.integer("n").IsConstant() || call.constant("n") < 0) {
    return absl::UnimplementedError("polygamma of an order that is symbolic or negative");
  }
  const auto n = static_cast<double>(call.constant("n"));
  const Operand operands[] = {call.tensor("self")};
  const DType declared = call.result().dtype;
  const DType dtype = FloatCommonType(operands, declared);
  double factor = n < 171 ? std::tgamma(n + 1) : std::numeric_limits<double>::infinity();
  // As eager, which multiplies in the element's type.
  if (dtype != kFloat64) factor = static_cast<float>(factor);
  if (std::fmod(n, 2) == 0) factor = -factor;
  OneResult result = n == 0   ? FloatUnary(b, operands, declared, Op::k_digamma)
                     : n == 1 ? FloatUnary(b, operands, declared, Op::k_trigamma)
                              : Emit(b, dtype, ToTensors(b, operands, dtype), [n, factor](Elems v) {
                                  return factor * Apply(Op::k_zeta, v[0].Like(n + 1), v[0]);
                                });
  TENSORD_RETURN_IF_ERROR(result.status());
  return std::vector<Tensor>{*std::move(result)};
}

#define UNARY(name, core) {"aten::" name, Single<core>}
#define POLYNOMIAL(name, core)                                                                \
  {"aten::special_" name, Single<core>}, {"aten::special_" name ".x_scalar", Single<core>}, { \
    "aten::special_" name ".n_scalar", Single<core>                                           \
  }

const Lowering kSpecialFunctionsLowerings[] = {
    POLYNOMIAL("chebyshev_polynomial_t", Wide2<Op::k_chebyshev_t>),
    POLYNOMIAL("chebyshev_polynomial_u", Wide2<Op::k_chebyshev_u>),
    POLYNOMIAL("chebyshev_polynomial_v", Wide2<Op::k_chebyshev_v>),
    POLYNOMIAL("chebyshev_polynomial_w", Wide2<Op::k_chebyshev_w>),
    POLYNOMIAL("shifted_chebyshev_polynomial_t", Shifted<Op::k_chebyshev_t>),
    POLYNOMIAL("shifted_chebyshev_polynomial_u", Shifted<Op::k_chebyshev_u>),
    POLYNOMIAL("shifted_chebyshev_polynomial_v", Shifted<Op::k_chebyshev_v>),
    POLYNOMIAL("shifted_chebyshev_polynomial_w", Shifted<Op::k_chebyshev_w>),
    POLYNOMIAL("hermite_polynomial_h", Wide2<Op::k_hermite_h>),
    POLYNOMIAL("hermite_polynomial_he", Wide2<Op::k_hermite_he>),
    POLYNOMIAL("laguerre_polynomial_l", Wide2<Op::k_laguerre>),
    POLYNOMIAL("legendre_polynomial_p", Wide2<Op::k_legendre>),

    UNARY("special_bessel_j0", Wide1<Op::k_bessel_j0>),
    UNARY("special_bessel_j1", Wide1<Op::k_bessel_j1>),
    UNARY("special_bessel_y0", Wide1<Op::k_bessel_y0>),
    UNARY("special_bessel_y1", Wide1<Op::k_bessel_y1>),
    UNARY("special_modified_bessel_i0", Wide1<Op::k_bessel_i0>),
    UNARY("special_modified_bessel_i1", Wide1<Op::k_bessel_i1>),
    UNARY("special_modified_bessel_k0", Wide1<Op::k_bessel_k0>),
    UNARY("special_modified_bessel_k1", Wide1<Op::k_bessel_k1>),
    UNARY("special_scaled_modified_bessel_k0", Wide1<Op::k_scaled_bessel_k0>),
    UNARY("special_scaled_modified_bessel_k1", Wide1<Op::k_scaled_bessel_k1>),
    UNARY("special_spherical_bessel_j0", SphericalBesselJ0),
    UNARY("special_airy_ai", Wide1<Op::k_airy_ai>),
    UNARY("i0", Float1<Op::k_bessel_i0>),
    UNARY("special_i0e", Float1<Op::k_scaled_bessel_i0>),
    UNARY("special_i1", Float1<Op::k_bessel_i1>),
    UNARY("special_i1e", Float1<Op::k_scaled_bessel_i1>),

    UNARY("special_erfcx", Wide1<Op::k_erfcx>),
    UNARY("special_ndtri", Wide1<Op::k_ndtri>),

    {"aten::polygamma", Polygamma},
    {"aten::special_zeta", Single<Wide2<Op::k_zeta>>},
    {"aten::special_zeta.other_scalar", Single<Wide2<Op::k_zeta>>},
    {"aten::special_zeta.self_scalar", Single<Wide2<Op::k_zeta>>},
    {"aten::igamma", Single<IncompleteGamma<Op::k_igamma>>},
    {"aten::igammac", Single<IncompleteGamma<Op::k_igammac>>},
};

}  // namespace

std::span<const Lowering> SpecialFunctionLowerings() { return kSpecialFunctionsLowerings; }

}  // namespace tensord::compiler
