// SPDX-License-Identifier: Apache-2.0
// Builds captured graphs for tests in a few lines:
//
//   GraphBuilder g;
//   const Dim s = g.Symbol(/*hint=*/8);
//   const Ref x = g.Input({s, 4});
//   const Ref y = g.Node("aten::add.Tensor", {x, 1.5, 1}, g.Meta({s, 4}));
//   g.Output(y);
//   VerifiedImport(g.graph());
//
// Inputs come first, then constants, then nodes, as values are numbered.
#ifndef TENSORD_TESTS_UNIT_TESTING_GRAPH_BUILDER_H_
#define TENSORD_TESTS_UNIT_TESTING_GRAPH_BUILDER_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tensord/v1/graph.pb.h"

namespace tensord::testing {

// A size: a number, or an expression over symbols.
struct Dim {
  v1::SymExpr expr;
  Dim(int value) { expr.set_constant(value); }      // NOLINT: numbers are sizes
  Dim(int64_t value) { expr.set_constant(value); }  // NOLINT
  explicit Dim(v1::SymExpr e) : expr(std::move(e)) {}
};

inline Dim MakeDim(v1::SymOp::Kind kind, const Dim& a, const Dim& b) {
  v1::SymExpr e;
  e.mutable_op()->set_kind(kind);
  *e.mutable_op()->add_args() = a.expr;
  *e.mutable_op()->add_args() = b.expr;
  return Dim(std::move(e));
}
inline Dim operator+(const Dim& a, const Dim& b) { return MakeDim(v1::SymOp::ADD, a, b); }
inline Dim operator*(const Dim& a, const Dim& b) {
  if (a.expr.kind_case() == v1::SymExpr::kConstant &&
      b.expr.kind_case() == v1::SymExpr::kConstant) {
    return Dim(a.expr.constant() * b.expr.constant());
  }
  return MakeDim(v1::SymOp::MUL, a, b);
}
inline Dim FloorDiv(const Dim& a, const Dim& b) { return MakeDim(v1::SymOp::FLOOR_DIV, a, b); }

using Shape = std::vector<Dim>;

// A value of the graph, or one result of a node with several.
struct Ref {
  uint32_t value;
  uint32_t output = 0;
  Ref result(uint32_t i) const { return {value, i}; }
};

// One argument of a node, from any plain value.
struct Arg {
  v1::Argument proto;
  Arg(std::nullptr_t) { proto.set_none(true); }  // NOLINT: values are arguments
  Arg(Ref r) {                                   // NOLINT
    proto.mutable_value()->set_value(r.value);
    proto.mutable_value()->set_output(r.output);
  }
  Arg(int v) { proto.mutable_integer()->set_constant(v); }      // NOLINT
  Arg(int64_t v) { proto.mutable_integer()->set_constant(v); }  // NOLINT
  Arg(const Dim& d) { *proto.mutable_integer() = d.expr; }      // NOLINT
  Arg(double v) { proto.set_real(v); }                          // NOLINT
  Arg(bool v) { proto.set_boolean(v); }                         // NOLINT
  Arg(const char* v) { proto.set_text(v); }                     // NOLINT
  Arg(v1::DType v) { proto.set_dtype(v); }                      // NOLINT
  Arg(v1::DeviceType v) { proto.set_device(v); }                // NOLINT
  Arg(v1::MemoryFormat v) { proto.set_memory_format(v); }       // NOLINT
  explicit Arg(v1::Argument p) : proto(std::move(p)) {}
};

inline Arg List(const std::vector<Arg>& items) {
  v1::Argument proto;
  proto.mutable_list();
  for (const Arg& item : items) *proto.mutable_list()->add_items() = item.proto;
  return Arg(std::move(proto));
}
inline Arg Ints(const Shape& values) {
  std::vector<Arg> items(values.begin(), values.end());
  return List(items);
}

class GraphBuilder {
 public:
  explicit GraphBuilder(v1::DeviceType device = v1::DEVICE_TYPE_CPU) : device_(device) {}

  v1::Graph& graph() { return graph_; }

  Dim Symbol(int64_t hint, int64_t min = 2, int64_t max = int64_t{1} << 31) {
    v1::Symbol* symbol = graph_.add_symbols();
    symbol->set_hint(hint);
    symbol->set_min(min);
    symbol->set_max(max);
    v1::SymExpr e;
    e.set_symbol(static_cast<uint32_t>(graph_.symbols_size() - 1));
    return Dim(std::move(e));
  }

  // One that data decides; the hint is arbitrary.
  Dim DataSymbol(int64_t hint, int64_t min = 0) {
    const Dim symbol = Symbol(hint, min);
    graph_.mutable_symbols()->rbegin()->set_from_data(true);
    return symbol;
  }

  // A tensor's meta; row-major where no strides are given.
  v1::TensorMeta Meta(const Shape& sizes, v1::DType dtype = v1::DTYPE_FLOAT32,
                      const Shape& strides = {}, const Dim& offset = 0) const {
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

  Ref Input(const Shape& sizes, v1::DType dtype = v1::DTYPE_FLOAT32, const Shape& strides = {}) {
    return Input(Meta(sizes, dtype, strides));
  }
  Ref Input(const v1::TensorMeta& meta) {
    TENSORD_CHECK(graph_.constants_size() == 0 && graph_.nodes_size() == 0, "inputs come first");
    v1::Input* input = graph_.add_inputs();
    *input->mutable_tensor() = meta;
    input->set_name("x" + std::to_string(graph_.inputs_size() - 1));
    return Last();
  }
  Ref SizeInput(const Dim& size) {
    TENSORD_CHECK(graph_.constants_size() == 0 && graph_.nodes_size() == 0, "inputs come first");
    *graph_.add_inputs()->mutable_size() = size.expr;
    return Last();
  }

  template <typename T>
  Ref Constant(const Shape& sizes, v1::DType dtype, const std::vector<T>& data) {
    TENSORD_CHECK(graph_.nodes_size() == 0, "constants come before nodes");
    v1::Constant* constant = graph_.add_constants();
    *constant->mutable_meta() = Meta(sizes, dtype);
    constant->set_data(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(T));
    constant->set_name("c" + std::to_string(graph_.constants_size() - 1));
    return Last();
  }

  // `op` with its overload: "aten::add.Tensor". The node is named "n<number>".
  Ref Node(const std::string& op, const std::vector<Arg>& args,
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
  Ref Node(const std::string& op, const std::vector<Arg>& args, const v1::TensorMeta& output) {
    return Node(op, args, std::vector<v1::TensorMeta>{output});
  }

  GraphBuilder& Output(const Arg& arg) {
    *graph_.add_outputs() = arg.proto;
    return *this;
  }

  static Shape RowMajor(const Shape& sizes) {
    Shape strides(sizes.size(), 1);
    for (size_t d = sizes.size(); d-- > 1;) {
      // A dimension of size 0 or 1 counts as 1 in the strides of eager's tensors.
      const v1::SymExpr& size = sizes[d].expr;
      const bool empty = size.kind_case() == v1::SymExpr::kConstant && size.constant() < 1;
      strides[d - 1] = empty ? strides[d] : strides[d] * sizes[d];
    }
    return strides;
  }

 private:
  Ref Last() const {
    return {static_cast<uint32_t>(graph_.inputs_size() + graph_.constants_size() +
                                  graph_.nodes_size() - 1)};
  }

  v1::DeviceType device_;
  v1::Graph graph_;
};

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_GRAPH_BUILDER_H_
