// SPDX-License-Identifier: Apache-2.0
// Which calls of a plan are matrix products that cuBLASLt can be asked for, and what to ask.
#ifndef TENSORD_RUNTIME_CUDA_PRODUCT_SHAPE_H_
#define TENSORD_RUNTIME_CUDA_PRODUCT_SHAPE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "runtime/cuda/cublaslt.h"
#include "runtime/program/plan.h"

namespace tensord::runtime {

// What algorithms may take for partial sums, in bytes. The most is what torch gives on Hopper; the
// least is so little that it counts nowhere.
inline constexpr uint64_t kLeastWorkspace = uint64_t{1} << 20, kMostWorkspace = uint64_t{32} << 20;

// An operand as a matrix in column-major order, which is how cuBLAS counts.
struct ProductOperand {
  bool transposed = false;
  int64_t leading = 0;  // elements from a column to the next
  int64_t batch_stride = 0;

  bool operator==(const ProductOperand&) const = default;
};

// d[m, n] = epilogue(alpha * a[m, k] * b[k, n] + beta * c[m, n]), `batch` times; an epilogue adds a
// bias[m] first.
struct ProductShape {
  int type = 0;  // of all operands: cudaDataType
  int64_t m = 0, n = 0, k = 0, batch = 1;
  ProductOperand a, b, c, d;  // c as d where there is none
  float alpha = 1, beta = 0;
  uint32_t epilogue = kLtNoEpilogue;
  uint64_t most_workspace = kMostWorkspace;  // a power of two: few shapes differ in it alone

  bool has_bias() const { return epilogue != kLtNoEpilogue; }
  bool operator==(const ProductShape&) const = default;
};

struct ProductCall {
  ProductShape shape;
  uint32_t a = 0, b = 0, c = 0, d = 0;  // buffers; c is d where nothing is added
  uint32_t bias = 0;                    // of an epilogue
  uint32_t calls = 1;                   // of the plan that it stands for
};

// The product that the first of these calls is, with as much workspace as the call has to spare, of
// a program without symbols. Where calls behind it add a bias to its result and take the ReLU of
// that, in place, it stands for them too. None: another operator, an operand that is empty, of
// another dtype than the 16-bit floats, or laid out neither by rows nor by columns.
std::optional<ProductCall> FindProduct(const TensordProgram& program,
                                       std::span<const std::unique_ptr<CallPlan>> calls);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_CUDA_PRODUCT_SHAPE_H_
