// SPDX-License-Identifier: Apache-2.0
// Arithmetic of complex elements as formulas of their parts, as torch's CPU code and the C++
// library have it; finite wherever these are, but for hyperbolic functions and those of angles
// whose parts' exponentials overflow.
#ifndef TENSORD_COMPILER_DECOMPOSE_OPERATORS_COMPLEX_H_
#define TENSORD_COMPILER_DECOMPOSE_OPERATORS_COMPLEX_H_

#include "compiler/decompose/expressions.h"

namespace tensord::compiler {

// One complex element's value inside a body.
struct ComplexElem {
  Elem re, im;
};

ComplexElem operator+(ComplexElem x, ComplexElem y);
ComplexElem operator-(ComplexElem x, ComplexElem y);
ComplexElem operator*(ComplexElem x, ComplexElem y);
ComplexElem operator*(ComplexElem x, double y);
// By Smith's method, which overflows only where the quotient does.
ComplexElem operator/(ComplexElem x, ComplexElem y);

ComplexElem ComplexReciprocal(ComplexElem z);
ComplexElem ComplexSquare(ComplexElem z);
ComplexElem ComplexSgn(ComplexElem z);  // z / |z|; 0 of 0
ComplexElem ComplexSqrt(ComplexElem z);
ComplexElem ComplexRsqrt(ComplexElem z);
ComplexElem ComplexExp(ComplexElem z);
ComplexElem ComplexExp2(ComplexElem z);
ComplexElem ComplexExpm1(ComplexElem z);
ComplexElem ComplexLog(ComplexElem z);
ComplexElem ComplexLog2(ComplexElem z);
ComplexElem ComplexLog10(ComplexElem z);
ComplexElem ComplexLog1p(ComplexElem z);
ComplexElem ComplexSin(ComplexElem z);
ComplexElem ComplexCos(ComplexElem z);
ComplexElem ComplexTan(ComplexElem z);
ComplexElem ComplexSinh(ComplexElem z);
ComplexElem ComplexCosh(ComplexElem z);
ComplexElem ComplexTanh(ComplexElem z);
ComplexElem ComplexSigmoid(ComplexElem z);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_OPERATORS_COMPLEX_H_
