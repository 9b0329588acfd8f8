// SPDX-License-Identifier: Apache-2.0
// Results that may not lie in an operand's place, though both are of one size and the operand dies.
#include "compiler/memory/in_place.h"

#include <gtest/gtest.h>

#include "compiler/pipeline.h"
#include "tests/unit/memory/h100.h"

namespace tensord::testing {
namespace in_place_test {

using compiler::BufferId;
using compiler::CompileState;
using compiler::ExternOp;

constexpr int kRows = 4096;

// Of the program's library calls, in order.
std::vector<ExternOp> CallsOf(const CompileState& state) {
  std::vector<ExternOp> calls;
  for (const compiler::Operation& operation : state.program.operations) {
    if (const auto* call = std::get_if<ExternOp>(&operation)) calls.push_back(*call);
  }
  return calls;
}

// Whether what the first call gives and what another one reads first have one place.
bool SharePlace(GraphBuilder& g, size_t reader) {
  const v1::CompileJob job = JobForH100(g);
  CompileState state;
  state.job = &job;
  const absl::Status status = compiler::RunPipeline(state);
  EXPECT_TRUE(status.ok()) << status;
  const std::vector<ExternOp> calls = CallsOf(state);
  const BufferId made = calls.at(0).results.at(0);
  const BufferId read = std::get<compiler::BufferView>(calls.at(reader).args.at(0).value).buffer;
  const compiler::Place &a = state.memory.places[made], &b = state.memory.places[read];
  EXPECT_EQ(a.kind, compiler::Place::kWorkspace);
  EXPECT_EQ(b.kind, compiler::Place::kWorkspace);
  return a.block == b.block && a.offset == b.offset;
}

// The last pass over a long row computes tanh(x) again, behind the one that stores the result.
TEST(InPlaceTest, NotWhereALaterPassComputesALocalOfItAgain) {
  constexpr int kColumns = 32768;
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref a = g.Input({kRows, 256}), w = g.Input({256, kColumns});
  const Ref w2 = g.Input({kColumns, 16}), w3 = g.Input({kColumns, 16});
  const v1::TensorMeta whole = g.Meta({kRows, kColumns}), row = g.Meta({kRows, 1});
  const Ref x = g.Node("aten::mm", {a, w}, whole);
  const Ref t = g.Node("aten::tanh", {x}, whole);
  const Ref mean = g.Node("aten::mean.dim", {t, Ints({1}), true, nullptr}, row);
  const Ref centred = g.Node("aten::sub.Tensor", {t, mean, 1}, whole);
  const Ref squares = g.Node("aten::mul.Tensor", {centred, centred}, whole);
  const Ref variance = g.Node("aten::mean.dim", {squares, Ints({1}), true, nullptr}, row);
  const Ref scale = g.Node("aten::rsqrt", {variance}, row);
  g.Output(g.Node("aten::mm", {centred, w2}, g.Meta({kRows, 16})));
  const Ref scaled = g.Node("aten::mul.Tensor", {t, scale}, whole);
  g.Output(g.Node("aten::mm", {scaled, w3}, g.Meta({kRows, 16})));
  EXPECT_FALSE(SharePlace(g, 1));
}

// A row's number is stored by one thread of a group, and loaded by all.
TEST(InPlaceTest, NotNumbersOfRowsThatAreReducedBesides) {
  constexpr int kColumns = 8192;
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref h = g.Input({kRows, 512}), w = g.Input({512, 1}), y = g.Input({kRows, kColumns});
  const Ref w2 = g.Input({1, 16});
  const v1::TensorMeta whole = g.Meta({kRows, kColumns}), row = g.Meta({kRows, 1});
  const Ref x = g.Node("aten::mm", {h, w}, row);
  const Ref sum = g.Node("aten::sum.dim_IntList", {y, Ints({1}), true, nullptr}, row);
  const Ref p = g.Node("aten::add.Tensor", {sum, x, 1}, row);
  const Ref q = g.Node("aten::tanh", {p}, row), r = g.Node("aten::sigmoid", {p}, row);
  g.Output(g.Node("aten::mul.Tensor", {y, q}, whole));
  g.Output(g.Node("aten::add.Tensor", {y, q, 1}, whole));
  g.Output(g.Node("aten::mm", {r, w2}, g.Meta({kRows, 16})));
  EXPECT_FALSE(SharePlace(g, 1));
}

}  // namespace in_place_test
}  // namespace tensord::testing
