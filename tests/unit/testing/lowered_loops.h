// SPDX-License-Identifier: Apache-2.0
// For tests of passes over loops: programs before and after, run by the interpreter.
#ifndef TENSORD_TESTS_UNIT_TESTING_LOWERED_LOOPS_H_
#define TENSORD_TESTS_UNIT_TESTING_LOWERED_LOOPS_H_

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "compiler/decompose/lower_graph.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/interpreter.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {

inline compiler::Program LoweredLoops(GraphBuilder& g) {
  const auto graph = VerifiedImport(g.graph());
  EXPECT_TRUE(graph.ok()) << graph.status();
  auto program = compiler::LowerGraph(*graph);
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

// Of an operation that is loops.
inline const compiler::LoopOp& LoopsOf(const compiler::Program& program, size_t operation) {
  return std::get<compiler::LoopOp>(program.operations.at(operation));
}

// The values of the one output, for row-major float32 inputs of these sizes.
inline std::vector<double> ResultsOf(const compiler::Program& program,
                                     const std::vector<std::vector<int64_t>>& sizes) {
  const absl::Status sound = compiler::VerifyProgram(program);
  EXPECT_TRUE(sound.ok()) << sound;
  std::vector<HostTensor> inputs;
  for (const std::vector<int64_t>& of : sizes) {
    int64_t count = 1;
    for (const int64_t size : of) count *= size;
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>((i * 7 + 3) % 19 - 9));
    inputs.push_back(MakeTensor(of, values));
  }
  return Interpret(program, inputs).at(0).Values();
}

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_LOWERED_LOOPS_H_
