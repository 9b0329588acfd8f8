// Which calls of a plan are matrix products that cuBLASLt can be asked for, and what to ask.
#ifndef TENSORD_RUNTIME_PRODUCT_SHAPE_H_
#define TENSORD_RUNTIME_PRODUCT_SHAPE_H_

#include <cstdint>
#include <optional>

#include "runtime/cublaslt.h"
#include "runtime/plan.h"

namespace tensord::runtime {

// An operand as a matrix in column-major order, which is how cuBLAS counts.
struct ProductOperand {
  bool transposed = false;
  int64_t leading = 0;  // elements from a column to the next
  int64_t batch_stride = 0;

  bool operator==(const ProductOperand&) const = default;
};

// d[m, n] = epilogue(alpha * a[m, k] * b[k, n] + beta * c[m, n]), `batch` times; an epilogue adds a
// bias[m] first, in place of c.
struct ProductShape {
  int type = 0;  // of all operands: cudaDataType
  int64_t m = 0, n = 0, k = 0, batch = 1;
  ProductOperand a, b, c, d;  // c as d where there is none
  float alpha = 1, beta = 0;
  uint32_t epilogue = kLtNoEpilogue;

  bool has_bias() const { return epilogue != kLtNoEpilogue; }
  bool operator==(const ProductShape&) const = default;
};

struct ProductCall {
  ProductShape shape;
  uint32_t a = 0, b = 0, c = 0, d = 0;  // buffers; c is the bias, if there is one
};

// The product that `call` of a program without symbols is. None: another operator, an operand that
// is empty, of another dtype than the 16-bit floats, or laid out neither by rows nor by columns.
std::optional<ProductCall> FindProduct(const TensordProgram& program, const CallPlan& call);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_PRODUCT_SHAPE_H_
