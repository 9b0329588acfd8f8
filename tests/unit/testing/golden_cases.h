// SPDX-License-Identifier: Apache-2.0
// The golden cases (tests/golden): one call of an operator each, with inputs and eager's results.
#ifndef TENSORD_TESTS_UNIT_TESTING_GOLDEN_CASES_H_
#define TENSORD_TESTS_UNIT_TESTING_GOLDEN_CASES_H_

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "tensord/v1/graph.pb.h"
#include "tests/unit/testing/interpreter.h"

namespace tensord::testing {

struct GoldenCase {
  std::string name;  // letters, digits and underscores: of the call
  v1::Graph graph;   // one node
  std::vector<HostTensor> inputs;
  std::vector<std::optional<HostTensor>> results;  // nothing: eager gives none
  double tolerance;                                // relative and absolute

  // "aten::add.Tensor".
  std::string Operator() const;
  // Of the graph.
  v1::DeviceType device() const;
};
void PrintTo(const GoldenCase* golden, std::ostream* out);

// Of all families, by name.
const std::vector<GoldenCase>& GoldenCases();

// The cases as parameters of tests: `--gtest_filter='*silu*'` runs those of one operator. Every
// `one_in`-th, chosen by its name, where no filter says what to run.
std::vector<const GoldenCase*> GoldenParameters(int one_in = 1);

// The graph with everything on GPUs, where operators may be lowered otherwise.
v1::Graph OnCuda(v1::Graph graph);

// Fails, naming the first element that differs, unless these are eager's results.
void ExpectResults(const GoldenCase& golden, const std::vector<HostTensor>& outputs);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_GOLDEN_CASES_H_
