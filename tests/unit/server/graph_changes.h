// SPDX-License-Identifier: Apache-2.0
// A graph with everything that graphs may have, and each change of it.
#ifndef TENSORD_TESTS_UNIT_SERVER_GRAPH_CHANGES_H_
#define TENSORD_TESTS_UNIT_SERVER_GRAPH_CHANGES_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensord/v1/graph.pb.h"

namespace tensord::server {

// A graph in which every kind of message occurs.
inline v1::Graph FullGraph() {
  v1::Graph graph;
  v1::Symbol* symbol = graph.add_symbols();
  symbol->set_hint(8);
  symbol->set_min(2);
  symbol->set_max(100);
  symbol->set_from_data(true);
  v1::Definition* definition = graph.add_symbols()->mutable_definition();
  definition->set_rounding(v1::Definition::TRUNC);
  v1::RealOp* product = definition->mutable_real()->mutable_op();
  product->set_kind(v1::RealOp::MUL);
  product->add_args()->set_constant(1.7);
  product->add_args()->mutable_integer()->set_symbol(0);
  v1::Input* input = graph.add_inputs();
  input->set_name("x");
  input->set_is_parameter(true);
  input->set_is_donated(true);
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
inline bool Change(google::protobuf::Message* message,
                   const google::protobuf::FieldDescriptor* field, int at) {
  using google::protobuf::FieldDescriptor;
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
inline void ForEachChange(google::protobuf::Message* message,
                          const std::function<void(const std::string&)>& visit) {
  using google::protobuf::FieldDescriptor;
  using google::protobuf::Message;
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

}  // namespace tensord::server

#endif  // TENSORD_TESTS_UNIT_SERVER_GRAPH_CHANGES_H_
