// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/testing/graph_builder.h"

#include <utility>

#include "base/check.h"

namespace tensord::testing {

Dim MakeDim(v1::SymOp::Kind kind, const Dim& a, const Dim& b) {
  v1::SymExpr e;
  e.mutable_op()->set_kind(kind);
  *e.mutable_op()->add_args() = a.expr;
  *e.mutable_op()->add_args() = b.expr;
  return Dim(std::move(e));
}

Dim::Dim(int value) { expr.set_constant(value); }
Dim::Dim(int64_t value) { expr.set_constant(value); }
Dim::Dim(v1::SymExpr e) : expr(std::move(e)) {}

Dim operator+(const Dim& a, const Dim& b) { return MakeDim(v1::SymOp::ADD, a, b); }
Dim operator*(const Dim& a, const Dim& b) {
  if (a.expr.kind_case() == v1::SymExpr::kConstant &&
      b.expr.kind_case() == v1::SymExpr::kConstant) {
    return Dim(a.expr.constant() * b.expr.constant());
  }
  return MakeDim(v1::SymOp::MUL, a, b);
}
Dim FloorDiv(const Dim& a, const Dim& b) { return MakeDim(v1::SymOp::FLOOR_DIV, a, b); }

Arg::Arg(std::nullptr_t) { proto.set_none(true); }
Arg::Arg(Ref r) {
  proto.mutable_value()->set_value(r.value);
  proto.mutable_value()->set_output(r.output);
}
Arg::Arg(int v) { proto.mutable_integer()->set_constant(v); }
Arg::Arg(int64_t v) { proto.mutable_integer()->set_constant(v); }
Arg::Arg(const Dim& d) { *proto.mutable_integer() = d.expr; }
Arg::Arg(double v) { proto.set_real(v); }
Arg::Arg(bool v) { proto.set_boolean(v); }
Arg::Arg(const char* v) { proto.set_text(v); }
Arg::Arg(v1::DType v) { proto.set_dtype(v); }
Arg::Arg(v1::DeviceType v) { proto.set_device(v); }
Arg::Arg(v1::MemoryFormat v) { proto.set_memory_format(v); }
Arg::Arg(v1::Argument p) : proto(std::move(p)) {}

Arg List(const std::vector<Arg>& items) {
  v1::Argument proto;
  proto.mutable_list();
  for (const Arg& item : items) *proto.mutable_list()->add_items() = item.proto;
  return Arg(std::move(proto));
}

Arg Ints(const Shape& values) {
  std::vector<Arg> items(values.begin(), values.end());
  return List(items);
}

Dim GraphBuilder::Symbol(int64_t hint, int64_t min, int64_t max) {
  v1::Symbol* symbol = graph_.add_symbols();
  symbol->set_hint(hint);
  symbol->set_min(min);
  symbol->set_max(max);
  v1::SymExpr e;
  e.set_symbol(static_cast<uint32_t>(graph_.symbols_size() - 1));
  return Dim(std::move(e));
}

Dim GraphBuilder::DataSymbol(int64_t hint, int64_t min) {
  const Dim symbol = Symbol(hint, min);
  graph_.mutable_symbols()->rbegin()->set_from_data(true);
  return symbol;
}

v1::TensorMeta GraphBuilder::Meta(const Shape& sizes, v1::DType dtype, const Shape& strides,
                                  const Dim& offset) const {
  v1::TensorMeta meta;
  meta.set_dtype(dtype);
  meta.set_device(device_);
  for (const Dim& size : sizes) *meta.add_sizes() = size.expr;
  for (const Dim& stride : strides.empty() ? RowMajor(sizes) : strides) {
    *meta.add_strides() = stride.expr;
  }
  *meta.mutable_storage_offset() = offset.expr;
  return meta;
}

Ref GraphBuilder::Input(const Shape& sizes, v1::DType dtype, const Shape& strides) {
  return Input(Meta(sizes, dtype, strides));
}

Ref GraphBuilder::Input(const v1::TensorMeta& meta) {
  TENSORD_CHECK(graph_.constants_size() == 0 && graph_.nodes_size() == 0, "inputs come first");
  v1::Input* input = graph_.add_inputs();
  *input->mutable_tensor() = meta;
  input->set_name("x" + std::to_string(graph_.inputs_size() - 1));
  return Last();
}

Ref GraphBuilder::SizeInput(const Dim& size) {
  TENSORD_CHECK(graph_.constants_size() == 0 && graph_.nodes_size() == 0, "inputs come first");
  *graph_.add_inputs()->mutable_size() = size.expr;
  return Last();
}

Ref GraphBuilder::Constant(const Shape& sizes, v1::DType dtype, const void* data, size_t bytes) {
  TENSORD_CHECK(graph_.nodes_size() == 0, "constants come before nodes");
  v1::Constant* constant = graph_.add_constants();
  *constant->mutable_meta() = Meta(sizes, dtype);
  constant->set_data(data, bytes);
  constant->set_name("c" + std::to_string(graph_.constants_size() - 1));
  return Last();
}

Ref GraphBuilder::Node(const std::string& op, const std::vector<Arg>& args,
                       const std::vector<v1::TensorMeta>& outputs) {
  v1::Node* node = graph_.add_nodes();
  const size_t dot = op.find('.');
  node->set_op(op.substr(0, dot));
  if (dot != std::string::npos) node->set_overload(op.substr(dot + 1));
  for (const Arg& arg : args) *node->add_args() = arg.proto;
  for (const v1::TensorMeta& meta : outputs) *node->add_outputs() = meta;
  node->set_name("n" + std::to_string(graph_.nodes_size() - 1));
  return Last();
}

Ref GraphBuilder::Node(const std::string& op, const std::vector<Arg>& args,
                       const v1::TensorMeta& output) {
  return Node(op, args, std::vector<v1::TensorMeta>{output});
}

GraphBuilder& GraphBuilder::Output(const Arg& arg) {
  *graph_.add_outputs() = arg.proto;
  return *this;
}

Shape GraphBuilder::RowMajor(const Shape& sizes) {
  Shape strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) {
    // A dimension of size 0 or 1 counts as 1 in the strides of eager's tensors.
    const v1::SymExpr& size = sizes[d].expr;
    const bool empty = size.kind_case() == v1::SymExpr::kConstant && size.constant() < 1;
    strides[d - 1] = empty ? strides[d] : strides[d] * sizes[d];
  }
  return strides;
}

Ref GraphBuilder::Last() const {
  return {static_cast<uint32_t>(graph_.inputs_size() + graph_.constants_size() +
                                graph_.nodes_size() - 1)};
}

}  // namespace tensord::testing
