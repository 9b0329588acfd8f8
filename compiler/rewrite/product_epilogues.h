// SPDX-License-Identifier: Apache-2.0
// Biases and activations go into the products that they follow.
//
// Requires: a graph for CUDA. Ensures: a bias added to a product is part of the product; a ReLU or
// a GELU (the tanh form, which is the one that cuBLASLt has) of a product with bias that nothing
// else reads, and whose result goes to the library or out of the graph, is part of it too.
// Activations are known by what they compute, in whatever operators they are spelt.
// Must come before pad_products.
#ifndef TENSORD_COMPILER_REWRITE_PRODUCT_EPILOGUES_H_
#define TENSORD_COMPILER_REWRITE_PRODUCT_EPILOGUES_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// The number of biases and activations taken in.
int ProductEpilogues(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_PRODUCT_EPILOGUES_H_
