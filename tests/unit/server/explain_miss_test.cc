// SPDX-License-Identifier: Apache-2.0
// Why a program is not stored: a store in which programs were published as compiles do, and one
// that is missed.
#include "server/compile/explain_miss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/sha256.h"

namespace tensord::server {
namespace explain_miss_test {

using ::testing::IsEmpty;

struct Program {
  v1::Graph graph;
  v1::Target target;
  v1::CompileOptions options;
  std::string toolchain = "cxx 12 | -O3";
  std::string build = Sha256("a build");

  ProgramKey Key() const { return MakeProgramKey(graph, target, options, toolchain, build); }
  DescribedKey Describe() const { return DescribeKey(graph, target, options, Key()); }
};

// Operators one behind the other, over a matrix of eight columns.
Program Chain(int operators = 24) {
  Program program;
  program.target.mutable_cpu()->set_isa(v1::ISA_AVX2);
  v1::TensorMeta& meta = *program.graph.add_inputs()->mutable_tensor();
  meta.set_dtype(v1::DTYPE_FLOAT32);
  meta.set_device(v1::DEVICE_TYPE_CPU);
  for (const int size : {16, 8}) meta.add_sizes()->set_constant(size);
  for (const int stride : {8, 1}) meta.add_strides()->set_constant(stride);
  for (int i = 0; i < operators; ++i) {
    v1::Node& node = *program.graph.add_nodes();
    node.set_op("aten::op" + std::to_string(i));
    node.add_args()->mutable_value()->set_value(static_cast<uint32_t>(i));
    node.add_args()->mutable_integer()->set_constant(1);
    *node.add_outputs() = program.graph.inputs(0).tensor();
  }
  return program;
}

class ExplainMissTest : public ::testing::Test {
 protected:
  ExplainMissTest() {
    char folder[] = "/tmp/tensord-explain-miss.XXXXXX";
    root_ = mkdtemp(folder);
    Open();
  }
  ~ExplainMissTest() override {
    store_.reset();
    std::filesystem::remove_all(root_);
  }

  void Open(uint64_t limit_bytes = 0) {
    store_.reset();
    store::StoreOptions options;
    options.root = root_ + "/store";
    options.limit_bytes = limit_bytes;
    options.now_ms = [this] { return now_ms_; };
    auto store = store::Store::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  void Publish(const Program& program, const std::string& payload = "payload",
               bool with_traits = true) {
    now_ms_ += 3'600'000;
    const DescribedKey key = program.Describe();
    store::ProgramFacts facts;
    facts.label = "forward";
    if (with_traits) facts.traits = key.parts.ToTraits();
    ASSERT_TRUE(store_
                    ->Publish(program.Key().Digest(), {{}, payload, ""},
                              with_traits ? key.detail.SerializeAsString() : "", facts)
                    .ok());
  }

  v1::ProgramMiss Explain(const Program& program) {
    const std::string key = program.Key().Digest();
    EXPECT_FALSE(store_->Lookup(key).ok()) << "nothing is missed";
    return ExplainMiss(*store_, key, program.Describe()).miss;
  }
  // By the field's name: what is wanted and what is stored.
  static std::map<std::string, std::string> Differences(const v1::ProgramMiss& miss) {
    std::map<std::string, std::string> found;
    for (const v1::KeyDifference& one : miss.differences()) {
      found[one.field()] = one.wanted() + " / " + one.stored();
    }
    return found;
  }
  using Fields = std::map<std::string, std::string>;

  std::string PathOf(const Program& program) const {
    const std::string hex = ToHex(program.Key().Digest());
    return root_ + "/store/manifests/" + hex.substr(0, 2) + "/" + hex;
  }

  std::string root_;
  int64_t now_ms_ = 1'700'000'000'000;
  std::unique_ptr<store::Store> store_;
};

TEST_F(ExplainMissTest, NothingIsNearWhereNothingIsStored) {
  const v1::ProgramMiss miss = Explain(Chain());
  EXPECT_EQ(miss.reason(), "new");
  EXPECT_EQ(miss.key(), Chain().Key().Digest());
  EXPECT_EQ(miss.nearest(), "");
  EXPECT_THAT(miss.differences(), IsEmpty());
}

TEST_F(ExplainMissTest, AGraphWithLittleInCommonIsNotNear) {
  Program other = Chain();
  for (v1::Node& node : *other.graph.mutable_nodes()) node.set_op("aten::other " + node.op());
  Publish(other);
  EXPECT_EQ(Explain(Chain()).reason(), "new");
}

// The parts of a key, one by one.
struct Change {
  const char* reason;
  std::function<void(Program&)> apply;
  std::map<std::string, std::string> differences;
};

std::vector<Change> Changes() {
  return {
      {"graph",
       [](Program& p) { p.graph.mutable_nodes(7)->set_op("aten::gelu"); },
       {{"operators aten::gelu", "1 / none"}, {"operators aten::op7", "none / 1"}}},
      {"graph",
       [](Program& p) { p.graph.mutable_nodes(9)->mutable_args(0)->mutable_value()->set_value(3); },
       {{"operators", " / "}}},
      {"graph",
       [](Program& p) {
         p.graph.mutable_nodes(9)->mutable_args(1)->mutable_integer()->set_constant(2);
       },
       {{"literals", " / "}}},
      {"graph",
       [](Program& p) { p.graph.add_outputs()->mutable_integer()->set_constant(2); },
       {{"literals", " / "}, {"operators", " / "}}},
      {"inputs",
       [](Program& p) {
         v1::TensorMeta& meta = *p.graph.mutable_inputs(0)->mutable_tensor();
         meta.set_dtype(v1::DTYPE_BFLOAT16);
         meta.mutable_sizes(0)->set_constant(32);
         for (v1::Node& node : *p.graph.mutable_nodes()) *node.mutable_outputs(0) = meta;
       },
       {{"inputs[0]",
         "bfloat16[32, 8] on cpu, strides [8, 1] / float32[16, 8] on cpu, strides [8, 1]"}}},
      {"inputs",
       [](Program& p) {
         p.graph.add_symbols()->set_hint(16);
         p.graph.mutable_inputs(0)->mutable_tensor()->mutable_sizes(0)->set_symbol(0);
       },
       {{"inputs[0]",
         "float32[s0, 8] on cpu, strides [8, 1] / float32[16, 8] on cpu, strides [8, 1]"},
        {"symbols[0]", "hint 16, from 0 to 0 / none"}}},
      {"inputs",
       [](Program& p) { p.graph.mutable_inputs(0)->set_is_parameter(true); },
       {{"inputs[0]",
         "float32[16, 8] on cpu, strides [8, 1], a parameter / float32[16, 8] on cpu, strides [8, "
         "1]"}}},
      {"inputs",
       [](Program& p) { p.graph.mutable_inputs(0)->set_is_donated(true); },
       {{"inputs[0]",
         "float32[16, 8] on cpu, strides [8, 1], donated / float32[16, 8] on cpu, strides [8, "
         "1]"}}},
      {"target",
       [](Program& p) { p.target.mutable_cpu()->set_isa(v1::ISA_AVX512); },
       {{"target.cpu.isa", "avx512 / avx2"}}},
      {"target",
       [](Program& p) { p.target.mutable_cpu()->set_l2_bytes(2048); },
       {{"target.cpu.l2_bytes", "2048 / 0"}}},
      {"options",
       [](Program& p) { p.options.set_mode(v1::MODE_MAX_AUTOTUNE); },
       {{"options.mode", "max_autotune / default"}}},
      {"options",
       [](Program& p) { p.options.set_unchecked(true); },
       {{"options.unchecked", "true / false"}}},
      {"toolchain",
       [](Program& p) { p.toolchain = "cxx 13 | -O3"; },
       {{"toolchain", "cxx 13 | -O3 / cxx 12 | -O3"}}},
      {"compiler",
       [](Program& p) { p.build = Sha256("another build"); },
       {{"compiler_build", ToHex(Sha256("another build")).substr(0, 12) + " / " +
                               ToHex(Sha256("a build")).substr(0, 12)}}},
      // The first that differs is what it is put down to, and all are told.
      {"options",
       [](Program& p) {
         p.options.set_deterministic(true);
         p.toolchain = "cxx 13 | -O3";
       },
       {{"options.deterministic", "true / false"}, {"toolchain", "cxx 13 | -O3 / cxx 12 | -O3"}}},
  };
}

TEST_F(ExplainMissTest, WhatDiffersFromTheNearestIsTheReason) {
  Publish(Chain());
  for (const Change& change : Changes()) {
    Program wanted = Chain();
    change.apply(wanted);
    const v1::ProgramMiss miss = Explain(wanted);
    EXPECT_EQ(miss.reason(), change.reason);
    EXPECT_EQ(miss.nearest(), Chain().Key().Digest());
    EXPECT_EQ(Differences(miss), change.differences);
    EXPECT_EQ(miss.more_differences(), 0u);
    EXPECT_GE(miss.similarity(), 0.5);
  }
}

TEST_F(ExplainMissTest, TheIndexIsMadeAgainOfTheRecords) {
  Publish(Chain());
  ASSERT_TRUE(store_->RebuildIndex().ok());
  Program wanted = Chain();
  wanted.options.set_unchecked(true);
  EXPECT_EQ(Explain(wanted).reason(), "options");
  EXPECT_EQ(Explain(wanted).nearest(), Chain().Key().Digest());
}

TEST_F(ExplainMissTest, OfSeveralTheNearestIsNamed) {
  Program another_graph = Chain(), another_input = Chain(), another_build = Chain();
  another_graph.graph.mutable_nodes(7)->set_op("aten::gelu");
  another_input.graph.mutable_inputs(0)->mutable_tensor()->set_dtype(v1::DTYPE_BFLOAT16);
  another_input.build = Sha256("another build");
  another_build.build = Sha256("another build");
  for (const Program* program : {&another_build, &another_input, &another_graph}) Publish(*program);
  const v1::ProgramMiss miss = Explain(Chain());
  EXPECT_EQ(miss.reason(), "compiler");
  EXPECT_EQ(miss.nearest(), another_build.Key().Digest());
}

TEST_F(ExplainMissTest, WhatWasEvictedWasStored) {
  Open(/*limit_bytes=*/4 << 20);
  const std::string large(1 << 20, 'x');
  Publish(Chain(), large);
  for (int i = 0; i < 6; ++i) {
    Program other = Chain();
    other.toolchain += std::to_string(i);
    Publish(other, large);
  }
  ASSERT_GT(store_->counters().evicted, 0u);
  EXPECT_EQ(Explain(Chain()).reason(), "evicted");
  // Once it is there again, it was not evicted.
  Publish(Chain());
  EXPECT_TRUE(store_->Lookup(Chain().Key().Digest()).ok());
  EXPECT_EQ(*store_->WhyGone(Sha256("another key")), std::nullopt);
}

TEST_F(ExplainMissTest, WhatWasDeletedOrDamagedIsLost) {
  Program other = Chain();
  other.options.set_unchecked(true);
  Publish(Chain());
  Publish(other);
  std::filesystem::remove(PathOf(Chain()));
  EXPECT_EQ(Explain(Chain()).reason(), "lost");
  std::filesystem::permissions(PathOf(other), std::filesystem::perms::owner_all);
  std::ofstream(PathOf(other), std::ios::app) << "more";
  EXPECT_EQ(Explain(other).reason(), "lost");
  store_->Reconcile();
  EXPECT_EQ(Explain(Chain()).reason(), "lost");
}

// Their records say nothing of what their keys were made of.
TEST_F(ExplainMissTest, OfProgramsOfOlderDaemonsNothingIsKnown) {
  Publish(Chain(), "payload", /*with_traits=*/false);
  Program wanted = Chain();
  wanted.options.set_unchecked(true);
  EXPECT_EQ(Explain(wanted).reason(), "unknown");
  ASSERT_TRUE(store_->RebuildIndex().ok());
  EXPECT_EQ(Explain(wanted).reason(), "unknown");
  EXPECT_TRUE(store_->Lookup(Chain().Key().Digest()).ok()) << "they are served all the same";
  Publish(wanted);
  Program near = wanted;
  near.toolchain += "x";
  EXPECT_EQ(Explain(near).reason(), "toolchain");
}

// However many are near, of each trait so many are looked at: those made last.
TEST_F(ExplainMissTest, LooksAtABoundedNumberOfPrograms) {
  for (int i = 0; i < 200; ++i) {
    Program other = Chain();
    other.build = Sha256("build " + std::to_string(i));
    Publish(other);
  }
  const auto traits = Chain().Describe().parts.ToTraits();
  for (size_t place = 0; place < traits.numbers.size(); ++place) {
    const auto rows = store_->WithTrait(place, traits.numbers[place], 16);
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_EQ(rows->size(), 16u);
    for (size_t i = 1; i < rows->size(); ++i) {
      EXPECT_GT((*rows)[i - 1].created_ms, (*rows)[i].created_ms);
    }
  }
  const v1::ProgramMiss miss = Explain(Chain());
  EXPECT_EQ(miss.reason(), "compiler");
}

TEST_F(ExplainMissTest, OnlySoManyDifferencesAreListed) {
  Program stored = Chain();
  for (int i = 0; i < 40; ++i) *stored.graph.add_inputs() = stored.graph.inputs(0);
  Publish(stored);
  Program wanted = stored;
  for (v1::Input& input : *wanted.graph.mutable_inputs()) input.set_is_parameter(true);
  const v1::ProgramMiss miss = Explain(wanted);
  EXPECT_EQ(miss.reason(), "inputs");
  EXPECT_EQ(miss.differences_size(), 16);
  EXPECT_EQ(miss.more_differences(), 41u - 16u);
}

}  // namespace explain_miss_test
}  // namespace tensord::server
