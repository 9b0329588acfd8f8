// SPDX-License-Identifier: Apache-2.0
// A captured graph lowered to loops and library calls, for the tests of that: its program, what is
// said of it where it is refused, the values that the interpreter computes.
#ifndef TENSORD_TESTS_UNIT_DECOMPOSE_LOWER_GRAPH_TESTING_H_
#define TENSORD_TESTS_UNIT_DECOMPOSE_LOWER_GRAPH_TESTING_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "compiler/decompose/lower_graph.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/interpreter.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace lower_graph_testing {

using compiler::ExternOp;
using compiler::Program;

inline absl::StatusOr<Program> TryLower(GraphBuilder& g) {
  TENSORD_ASSIGN_OR_RETURN(const compiler::Graph graph, VerifiedImport(g.graph()));
  return compiler::LowerGraph(graph);
}

inline Program Lower(GraphBuilder& g) {
  auto program = TryLower(g);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  EXPECT_TRUE(compiler::VerifyProgram(*program).ok()) << compiler::VerifyProgram(*program);
  return *std::move(program);
}

inline std::string ErrorOf(GraphBuilder& g) {
  const auto program = TryLower(g);
  return program.ok() ? "accepted" : std::string(program.status().message());
}

// The values of output 0.
inline std::vector<double> ValuesOf(GraphBuilder& g, std::vector<HostTensor> inputs) {
  const Program program = Lower(g);
  return Interpret(program, inputs)[0].Values();
}

inline std::vector<std::string> LibraryCalls(const Program& program) {
  std::vector<std::string> calls;
  for (const auto& operation : program.operations) {
    if (const auto* call = std::get_if<ExternOp>(&operation)) {
      calls.push_back(call->op + (call->overload.empty() ? "" : "." + call->overload));
    }
  }
  return calls;
}

}  // namespace lower_graph_testing
}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_DECOMPOSE_LOWER_GRAPH_TESTING_H_
