// SPDX-License-Identifier: Apache-2.0
// A CompileJob as a worker gets it: import and the verifier refuse what is malformed, and of what
// they take the compiler makes a program.
#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "compiler/compile.h"
#include "compiler/graph/verify.h"
#include "compiler/import/import.h"
#include "compiler/ops/operators.h"
#include "tests/fuzz/targets/target.h"

namespace tensord::fuzz {
namespace {

using compiler::Operator;

// Larger graphs are verified, not compiled: time is for many of them.
constexpr int kMostCompiled = 24;

void Run(std::string_view input) {
  v1::CompileJob job;
  if (!job.ParseFromArray(input.data(), static_cast<int>(input.size()))) return;
  const auto graph = compiler::Import(job.graph());
  const absl::Status status = graph.ok() ? compiler::VerifyGraph(*graph) : graph.status();
  if (!status.ok()) {
    TENSORD_CHECK(absl::IsInvalidArgument(status) && !status.message().empty(), status.ToString());
    return;
  }
  if (job.graph().nodes_size() > kMostCompiled || !job.has_target()) return;
  const absl::Status compiled = compiler::Compile(job).status();
  TENSORD_CHECK(!absl::IsInternal(compiled), compiled.ToString());
}

bool TakesTheSame(const Operator& one, const Operator& other) {
  return std::equal(one.parameters.begin(), one.parameters.end(), other.parameters.begin(),
                    other.parameters.end(),
                    [](const compiler::Parameter& a, const compiler::Parameter& b) {
                      return a.type == b.type && a.list == b.list && a.optional == b.optional;
                    });
}

// A node's operator by another that takes such arguments, or the element type of an input: what a
// change of a letter or a number hardly ever leads to.
void Mutate(google::protobuf::Message* message, std::mt19937& random) {
  v1::Graph& graph = *static_cast<v1::CompileJob*>(message)->mutable_graph();
  const auto dtype = static_cast<v1::DType>(1 + random() % (v1::DType_ARRAYSIZE - 1));
  if (graph.inputs_size() > 0 && random() % 3 == 0) {
    v1::Input& changed = *graph.mutable_inputs(static_cast<int>(random() % graph.inputs_size()));
    if (!changed.has_tensor()) return;
    const v1::DType before = changed.tensor().dtype();
    changed.mutable_tensor()->set_dtype(dtype);
    if (random() % 2 == 0) return;
    // All of that type: many operators give what they take.
    for (v1::Input& input : *graph.mutable_inputs()) {
      if (input.tensor().dtype() == before) input.mutable_tensor()->set_dtype(dtype);
    }
    for (v1::Node& node : *graph.mutable_nodes()) {
      for (v1::TensorMeta& result : *node.mutable_outputs()) {
        if (result.dtype() == before) result.set_dtype(dtype);
      }
    }
    return;
  }
  if (graph.nodes_size() == 0) return;
  v1::Node& node = *graph.mutable_nodes(static_cast<int>(random() % graph.nodes_size()));
  if (node.outputs_size() > 0 && random() % 4 == 0) {
    node.mutable_outputs(static_cast<int>(random() % node.outputs_size()))->set_dtype(dtype);
    return;
  }
  const Operator* now = compiler::FindOperator(
      node.overload().empty() ? node.op() : node.op() + "." + node.overload());
  if (now == nullptr) return;
  const auto all = compiler::AllOperators();
  const size_t start = random() % all.size();
  for (size_t i = 0; i < all.size(); ++i) {
    const Operator& other = all[(start + i) % all.size()];
    if (&other == now || !TakesTheSame(*now, other)) continue;
    const size_t dot = other.name.find('.');
    node.set_op(std::string(other.name.substr(0, dot)));
    node.set_overload(dot == std::string_view::npos ? "" : std::string(other.name.substr(dot + 1)));
    return;
  }
}

}  // namespace

const Target kGraphTarget = {
    .name = "graph",
    .run = Run,
    .message = []() -> const google::protobuf::Message* {
      return &v1::CompileJob::default_instance();
    },
    .mutate = Mutate,
};

}  // namespace tensord::fuzz
