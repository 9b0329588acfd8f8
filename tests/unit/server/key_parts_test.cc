// SPDX-License-Identifier: Apache-2.0
#include "server/compile/key_parts.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/server/graph_changes.h"

namespace tensord::server {
namespace key_parts_test {

KeyParts PartsOf(const v1::Graph& graph) {
  return TakeApart(graph, MakeProgramKey(graph, {}, {}, "toolchain", "build"));
}

std::set<KeyPart> Differing(const KeyParts& a, const KeyParts& b) {
  std::set<KeyPart> parts;
  for (size_t i = 0; i < kKeyParts; ++i) {
    if (a.digests[i] != b.digests[i]) parts.insert(static_cast<KeyPart>(i));
  }
  return parts;
}

// Each operator reads the one before it, the first an input.
v1::Graph Chain(const std::vector<std::string>& ops) {
  v1::Graph graph;
  graph.add_inputs()->mutable_tensor()->set_dtype(v1::DTYPE_FLOAT32);
  for (const std::string& op : ops) {
    v1::Node* node = graph.add_nodes();
    node->set_op(op);
    node->add_args()->mutable_value()->set_value(static_cast<uint32_t>(graph.nodes_size()) - 1);
  }
  return graph;
}

std::vector<std::string> Ops(int count) {
  std::vector<std::string> ops;
  for (int i = 0; i < count; ++i) ops.push_back("op" + std::to_string(i));
  return ops;
}

TEST(KeyPartsTest, AChangeIsSeenInThePartThatItIsOf) {
  v1::Graph graph = FullGraph();
  const KeyParts before = PartsOf(graph);
  const std::map<std::string, std::function<KeyPart(v1::Graph&)>> changes = {
      {"operator",
       [](v1::Graph& g) { return g.mutable_nodes(0)->set_op("x"), KeyPart::kOperators; }},
      {"value",
       [](v1::Graph& g) {
         g.mutable_nodes(0)->mutable_args(0)->mutable_value()->set_value(0);
         return KeyPart::kOperators;
       }},
      {"number",
       [](v1::Graph& g) {
         g.mutable_nodes(0)->mutable_args(2)->mutable_integer()->set_constant(6);
         return KeyPart::kLiterals;
       }},
      {"size",
       [](v1::Graph& g) {
         g.mutable_inputs(0)->mutable_tensor()->mutable_strides(0)->set_constant(2);
         return KeyPart::kInputs;
       }},
      {"symbol", [](v1::Graph& g) { return g.mutable_symbols(0)->set_max(9), KeyPart::kInputs; }},
      {"data",
       [](v1::Graph& g) { return g.mutable_constants(0)->set_data("x"), KeyPart::kConstants; }},
      {"result",
       [](v1::Graph& g) {
         g.mutable_nodes(0)->mutable_outputs(0)->set_dtype(v1::DTYPE_BOOL);
         return KeyPart::kResults;
       }},
  };
  for (const auto& [name, change] : changes) {
    v1::Graph changed = graph;
    const KeyPart part = change(changed);
    EXPECT_EQ(Differing(PartsOf(changed), before), std::set{part}) << name;
  }
}

TEST(KeyPartsTest, TheSketchTellsHowMuchGraphsHaveInCommon) {
  const KeyParts graph = PartsOf(Chain(Ops(60)));
  EXPECT_EQ(Similarity(graph, graph), 1);
  auto one_changed = Ops(60);
  one_changed[30] = "another";
  EXPECT_GE(Similarity(graph, PartsOf(Chain(one_changed))), 0.75);
  auto one_more = Ops(60);
  one_more.insert(one_more.begin() + 10, "another");
  EXPECT_GE(Similarity(graph, PartsOf(Chain(one_more))), 0.75);
  std::vector<std::string> others;
  for (const std::string& op : Ops(60)) others.push_back("another " + op);
  EXPECT_LE(Similarity(graph, PartsOf(Chain(others))), 0.125);
  // Shapes have no part in it.
  v1::Graph reshaped = Chain(Ops(60));
  reshaped.mutable_inputs(0)->mutable_tensor()->set_dtype(v1::DTYPE_BOOL);
  EXPECT_EQ(Similarity(graph, PartsOf(reshaped)), 1);
}

TEST(KeyPartsTest, NearGraphsHaveATraitInCommon) {
  for (int changed = 0; changed < 40; ++changed) {
    auto ops = Ops(40);
    ops[static_cast<size_t>(changed)] = "another";
    const auto a = PartsOf(Chain(Ops(40))).ToTraits().numbers;
    const auto b = PartsOf(Chain(ops)).ToTraits().numbers;
    int common = 0;
    for (size_t i = 0; i < a.size(); ++i) common += a[i] == b[i];
    EXPECT_GT(common, 0) << changed;
    EXPECT_NE(a[0], b[0]);
    EXPECT_NE(a[1], b[1]);
  }
}

TEST(KeyPartsTest, TheSameGraphHasItsFirstTraitForEachTarget) {
  const v1::Graph graph = FullGraph();
  ProgramKey other = MakeProgramKey(graph, {}, {}, "another toolchain", "another build");
  other.target = "another target";
  const auto a = PartsOf(graph).ToTraits(), b = TakeApart(graph, other).ToTraits();
  EXPECT_EQ(a.numbers, b.numbers);
  EXPECT_NE(a.compared, b.compared);
}

TEST(KeyPartsTest, AreReadBackAndRefusedInAnotherForm) {
  const KeyParts parts = PartsOf(FullGraph());
  std::string compared = parts.ToTraits().compared;
  const auto read = KeyParts::FromTraits(compared);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->digests, parts.digests);
  EXPECT_EQ(read->sketch, parts.sketch);
  EXPECT_FALSE(KeyParts::FromTraits("").has_value());
  EXPECT_FALSE(KeyParts::FromTraits(compared.substr(1)).has_value());
  ++compared[0];
  EXPECT_FALSE(KeyParts::FromTraits(compared).has_value());
}

}  // namespace key_parts_test
}  // namespace tensord::server
