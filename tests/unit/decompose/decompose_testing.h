// SPDX-License-Identifier: Apache-2.0
// Lowerings of one operator or two: the program, what it computes, how many loops and which library
// call it has.
#ifndef TENSORD_TESTS_UNIT_DECOMPOSE_DECOMPOSE_TESTING_H_
#define TENSORD_TESTS_UNIT_DECOMPOSE_DECOMPOSE_TESTING_H_

#include <absl/status/statusor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "compiler/decompose/lower_graph.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/interpreter.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace decompose_testing {

using compiler::ExternOp;
using compiler::LoopOp;
using compiler::Program;

inline absl::StatusOr<Program> Lower(GraphBuilder& g) {
  auto graph = VerifiedImport(g.graph());
  if (!graph.ok()) return graph.status();
  auto program = compiler::LowerGraph(*graph);
  if (program.ok()) {
    EXPECT_TRUE(compiler::VerifyProgram(*program).ok());
  }
  return program;
}

inline std::vector<HostTensor> LowerAndRun(GraphBuilder& g, std::vector<HostTensor> inputs,
                                           const InterpreterOptions& options = {}) {
  const auto program = Lower(g);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? Interpret(*program, inputs, options) : std::vector<HostTensor>{};
}

inline int CountLoops(const Program& program) {
  int count = 0;
  for (const auto& operation : program.operations)
    count += std::holds_alternative<LoopOp>(operation);
  return count;
}

inline std::string LibraryCall(const Program& program) {
  for (const auto& operation : program.operations) {
    if (const auto* call = std::get_if<ExternOp>(&operation)) return call->op;
  }
  return "";
}

inline std::vector<double> Iota(int n, double scale = 1) {
  std::vector<double> values;
  for (int i = 0; i < n; ++i) values.push_back(std::fmod(i * 7.0 + 3, 11) * scale);
  return values;
}

}  // namespace decompose_testing
}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_DECOMPOSE_DECOMPOSE_TESTING_H_
