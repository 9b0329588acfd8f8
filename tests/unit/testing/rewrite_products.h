// SPDX-License-Identifier: Apache-2.0
// Graphs before and after a rewrite of products: what they call, and that they compute the same.
#ifndef TENSORD_TESTS_UNIT_TESTING_REWRITE_PRODUCTS_H_
#define TENSORD_TESTS_UNIT_TESTING_REWRITE_PRODUCTS_H_

#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/loop_ir/program.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/rewrite_testing.h"

namespace tensord::testing {

compiler::Program MustLower(const compiler::Graph& graph);

// The graphs' outputs for inputs of small numbers: the same values up to `tolerance`, with strides
// that eager promises.
void ExpectSameOutputs(const compiler::Graph& before, const compiler::Graph& after,
                       double tolerance = 1e-6);

// "aten::mm [8, 64] [64, 16]": the library calls with the sizes and strides of their operands.
std::vector<std::string> LibraryCalls(const compiler::Program& program);

int LoopOperations(const compiler::Program& program);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_REWRITE_PRODUCTS_H_
