// SPDX-License-Identifier: Apache-2.0
// Large products of matrices get operands with rows of whole 16 bytes, for which the GPU's library
// has fast kernels.
//
// Requires: a graph for CUDA. Ensures: products that pay for it run on operands padded with zeros,
// so that every matrix in memory has rows of whole 16 bytes; what reads a result reads a slice of
// it, and what wants padded rows (tensord::padded_rows) the result itself. Large results that are
// given out are computed by rows that are equally aligned instead. A large weight that is converted
// for one product alone is there part by part. Must follow passes that make or merge products.
#ifndef TENSORD_COMPILER_REWRITE_PAD_PRODUCTS_H_
#define TENSORD_COMPILER_REWRITE_PAD_PRODUCTS_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// When padding pays.
struct PaddingCosts {
  // Multiply-adds below which a product is too short to bother: 2^27 take less than a microsecond.
  double least_work = 1 << 27;
  // What the GPU could have multiplied while it copies a byte: 600 TFLOP/s against 4.3 TB/s on an
  // H200, 200 against 1.4 on an A100.
  double flops_per_byte = 150;
  // A result that is to be contiguous is computed by rows that are equally aligned where these are
  // as many (fewer take longer to read the weight once more than to multiply) and have as many
  // elements (two waves of 128x256 on 132 multiprocessors). Padded and copied it would be in memory
  // twice.
  int64_t least_equally_aligned_rows = 128;
  int64_t least_equally_aligned_elements = 8 << 20;
  // Of a weight that is converted for one product, at a time: what stays in an L2 cache until the
  // product reads it.
  int64_t most_weight_bytes = 32 << 20;
};

// The number of products that are padded, computed by rows or have their weight in parts.
int PadProducts(const PaddingCosts& costs, Graph* graph);
int PadProducts(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_PAD_PRODUCTS_H_
