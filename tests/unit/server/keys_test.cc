// SPDX-License-Identifier: Apache-2.0
#include "server/program/keys.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "server/compile/key_parts.h"
#include "tests/unit/server/graph_changes.h"

namespace tensord::server {
namespace keys_test {

using google::protobuf::FieldDescriptor;

// Every message type that can occur in a graph, and the fields that FullGraph leaves unset.
void CollectFields(const google::protobuf::Descriptor* type, std::set<std::string>& fields,
                   std::set<const void*>& seen) {
  if (!seen.insert(type).second) return;
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      CollectFields(field->message_type(), fields, seen);
    } else {
      fields.insert(field->full_name());
    }
  }
}

std::string Digest(const v1::Graph& graph) {
  return MakeProgramKey(graph, {}, {}, "toolchain", "build").Digest();
}

TEST(KeysTest, EveryFieldOfTheGraphMattersButThoseForPeople) {
  const std::set<std::string> for_people = {"tensord.v1.Input.name", "tensord.v1.Constant.name",
                                            "tensord.v1.Node.line", "tensord.v1.Node.name",
                                            "tensord.v1.Node.source"};
  v1::Graph graph = FullGraph();
  const std::string before = Digest(graph);
  std::set<std::string> changed;
  ForEachChange(&graph, [&](const std::string& field) {
    changed.insert(field);
    if (for_people.count(field) > 0) {
      EXPECT_EQ(Digest(graph), before) << field << " is for people";
    } else {
      EXPECT_NE(Digest(graph), before) << field << " must be part of the key";
    }
  });
  // A field that is new in graph.proto has to be added to FullGraph, and so is tested.
  std::set<std::string> all;
  std::set<const void*> seen;
  CollectFields(v1::Graph::descriptor(), all, seen);
  EXPECT_EQ(changed, all);
  EXPECT_EQ(Digest(graph), before);
}

// A part for each of the key's fields: none of which a change would go unseen.
TEST(KeysTest, EveryFieldOfTheKeyIsInOneOfItsParts) {
  v1::Graph graph = FullGraph();
  const auto parts_of = [&](const ProgramKey& key) { return TakeApart(graph, key).digests; };
  const auto key_of = [&] { return MakeProgramKey(graph, {}, {}, "toolchain", "build"); };
  const std::string digest = Digest(graph);
  const auto before = parts_of(key_of());
  ForEachChange(&graph, [&](const std::string& field) {
    EXPECT_EQ(parts_of(key_of()) != before, Digest(graph) != digest) << field;
  });
  std::vector<ProgramKey> keys(6, key_of());
  keys[0].target += "x";
  keys[1].options += "x";
  keys[2].toolchain += "x";
  keys[3].compiler_build += "x";
  ++keys[4].compiler_version;
  ++keys[5].artifact_format;
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_NE(parts_of(keys[i]), before) << i;
}

TEST(KeysTest, MovingWorkBetweenListsChangesTheKey) {
  v1::Graph a, b;
  a.add_inputs()->mutable_size()->set_symbol(0);
  b.add_symbols();
  EXPECT_NE(Digest(a), Digest(b));
  v1::Graph empty_tensor, nothing;
  empty_tensor.add_inputs()->mutable_tensor();
  nothing.add_inputs();
  EXPECT_NE(Digest(empty_tensor), Digest(nothing));
}

TEST(KeysTest, EveryFieldOfTheProgramKeyMatters) {
  const ProgramKey base{"graph", "target", "options", "toolchain", "build", 1, 1};
  std::vector<ProgramKey> keys(8, base);
  keys[1].graph += "x";
  keys[2].target += "x";
  keys[3].options += "x";
  keys[4].toolchain += "x";
  keys[5].compiler_build += "x";
  ++keys[6].compiler_version;
  ++keys[7].artifact_format;
  std::set<std::string> digests;
  for (const ProgramKey& key : keys) digests.insert(key.Digest());
  EXPECT_EQ(digests.size(), keys.size());
  EXPECT_EQ(base.Digest().size(), 32u);
}

TEST(KeysTest, TargetAndOptionsMatter) {
  v1::Target avx2, avx512, caches;
  avx2.mutable_cpu()->set_isa(v1::ISA_AVX2);
  avx512.mutable_cpu()->set_isa(v1::ISA_AVX512);
  caches = avx2;
  caches.mutable_cpu()->set_l2_bytes(1 << 20);
  v1::CompileOptions autotune, deterministic, unchecked, rounding, releases;
  autotune.set_mode(v1::MODE_MAX_AUTOTUNE);
  deterministic.set_deterministic(true);
  unchecked.set_unchecked(true);
  rounding.set_emulate_eager_rounding(true);
  releases.set_releases_inputs(true);
  std::set<std::string> digests;
  for (const v1::Target& target : {avx2, avx512, caches}) {
    for (const v1::CompileOptions& options :
         {v1::CompileOptions(), autotune, deterministic, unchecked, rounding, releases}) {
      digests.insert(MakeProgramKey(FullGraph(), target, options, "t", "b").Digest());
    }
  }
  EXPECT_EQ(digests.size(), 18u);
}

TEST(KeysTest, KernelKeyTakesSourceFunctionsArchAndToolchain) {
  v1::KernelUnit unit;
  unit.set_source("source");
  unit.add_functions("f");
  unit.set_description("for people");
  v1::Target target;
  target.mutable_cpu()->set_isa(v1::ISA_AVX2);
  const std::string base = MakeKernelKey(unit, target, "t").Digest();

  v1::KernelUnit other = unit;
  other.set_description("else");
  EXPECT_EQ(MakeKernelKey(other, target, "t").Digest(), base);
  // What the caches led to is in the source: a kernel serves every machine of its architecture.
  v1::Target caches = target;
  caches.mutable_cpu()->set_l1_bytes(1);
  EXPECT_EQ(MakeKernelKey(unit, caches, "t").Digest(), base);

  std::set<std::string> digests{base, MakeKernelKey(unit, target, "u").Digest()};
  other = unit;
  other.set_source("x");
  digests.insert(MakeKernelKey(other, target, "t").Digest());
  other = unit;
  other.add_functions("g");
  digests.insert(MakeKernelKey(other, target, "t").Digest());
  target.mutable_cpu()->set_isa(v1::ISA_AVX512);
  digests.insert(MakeKernelKey(unit, target, "t").Digest());
  target.mutable_cuda()->set_sm(90);
  digests.insert(MakeKernelKey(unit, target, "t").Digest());
  EXPECT_EQ(digests.size(), 6u);
}

TEST(KeysTest, ArchNames) {
  v1::Target target;
  EXPECT_EQ(ArchOf(target), "none");
  target.mutable_cpu()->set_isa(v1::ISA_AVX512);
  EXPECT_EQ(ArchOf(target), "cpu avx512");
  target.mutable_cuda()->set_sm(90);
  EXPECT_EQ(ArchOf(target), "cuda sm90");
}

}  // namespace keys_test
}  // namespace tensord::server
