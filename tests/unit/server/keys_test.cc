// SPDX-License-Identifier: Apache-2.0
#include "server/compile/keys.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace tensord::server {
namespace keys_test {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// A graph in which every kind of message occurs.
v1::Graph FullGraph() {
  v1::Graph graph;
  v1::Symbol* symbol = graph.add_symbols();
  symbol->set_hint(8);
  symbol->set_min(2);
  symbol->set_max(100);
  symbol->set_from_data(true);
  v1::Input* input = graph.add_inputs();
  input->set_name("x");
  input->set_is_parameter(true);
  v1::TensorMeta* meta = input->mutable_tensor();
  meta->set_dtype(v1::DTYPE_FLOAT32);
  meta->set_device(v1::DEVICE_TYPE_CPU);
  v1::SymOp* op = meta->add_sizes()->mutable_op();
  op->set_kind(v1::SymOp::ADD);
  op->add_args()->set_symbol(0);
  op->add_args()->set_constant(3);
  meta->add_strides()->set_constant(1);
  meta->mutable_storage_offset()->set_constant(4);
  graph.add_inputs()->mutable_size()->set_symbol(0);
  v1::Constant* constant = graph.add_constants();
  *constant->mutable_meta() = *meta;
  constant->set_data("data");
  constant->set_name("c");
  v1::Node* node = graph.add_nodes();
  node->set_op("aten::add");
  node->set_overload("Tensor");
  node->set_name("add");
  node->set_source("model.py:1");
  node->set_line("x + y");
  *node->add_outputs() = *meta;
  node->add_args()->mutable_value()->set_value(1);
  node->mutable_args(0)->mutable_value()->set_output(2);
  node->add_args()->set_none(true);
  node->add_args()->mutable_integer()->set_constant(5);
  node->add_args()->set_real(0.5);
  node->add_args()->set_boolean(true);
  node->add_args()->set_text("sum");
  node->add_args()->set_dtype(v1::DTYPE_BOOL);
  node->add_args()->set_device(v1::DEVICE_TYPE_CUDA);
  node->add_args()->set_memory_format(v1::MEMORY_FORMAT_PRESERVE);
  node->add_args()->mutable_list()->add_items()->set_boolean(true);
  node->add_args()->set_layout_strided(true);
  graph.add_outputs()->mutable_value()->set_value(3);
  return graph;
}

// Changes a field that holds one value; false for messages.
bool Change(Message* message, const FieldDescriptor* field, int at) {
  const auto* reflection = message->GetReflection();
  const bool many = field->is_repeated();
#define TENSORD_CHANGE(Type, next)                                                            \
  many ? reflection->SetRepeated##Type(                                                       \
             message, field, at,                                                              \
             [](auto v) { return next; }(reflection->GetRepeated##Type(*message, field, at))) \
       : reflection->Set##Type(                                                               \
             message, field, [](auto v) { return next; }(reflection->Get##Type(*message, field)))
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      TENSORD_CHANGE(Int64, v + 1);
      return true;
    case FieldDescriptor::CPPTYPE_UINT32:
      TENSORD_CHANGE(UInt32, v + 1);
      return true;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      TENSORD_CHANGE(Double, v + 1);
      return true;
    case FieldDescriptor::CPPTYPE_BOOL:
      TENSORD_CHANGE(Bool, !v);
      return true;
    case FieldDescriptor::CPPTYPE_ENUM:
      TENSORD_CHANGE(EnumValue, v + 1);
      return true;
    case FieldDescriptor::CPPTYPE_STRING:
      TENSORD_CHANGE(String, v + "!");
      return true;
    default:
      return false;
  }
#undef TENSORD_CHANGE
}

// Calls `visit` with the name of every value of `message`, changed while it looks.
void ForEachChange(Message* message, const std::function<void(const std::string&)>& visit) {
  const auto* reflection = message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int size = field->is_repeated() ? reflection->FieldSize(*message, field) : 1;
    for (int at = 0; at < size; ++at) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        ForEachChange(field->is_repeated() ? reflection->MutableRepeatedMessage(message, field, at)
                                           : reflection->MutableMessage(message, field),
                      visit);
        continue;
      }
      const std::unique_ptr<Message> before(message->New());
      before->CopyFrom(*message);
      ASSERT_TRUE(Change(message, field, at)) << field->full_name();
      visit(field->full_name());
      message->CopyFrom(*before);
    }
  }
}

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
  v1::CompileOptions autotune, deterministic, unchecked, rounding;
  autotune.set_mode(v1::MODE_MAX_AUTOTUNE);
  deterministic.set_deterministic(true);
  unchecked.set_unchecked(true);
  rounding.set_emulate_eager_rounding(true);
  std::set<std::string> digests;
  for (const v1::Target& target : {avx2, avx512, caches}) {
    for (const v1::CompileOptions& options :
         {v1::CompileOptions(), autotune, deterministic, unchecked, rounding}) {
      digests.insert(MakeProgramKey(FullGraph(), target, options, "t", "b").Digest());
    }
  }
  EXPECT_EQ(digests.size(), 15u);
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
