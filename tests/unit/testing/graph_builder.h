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

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tensord/v1/graph.pb.h"

namespace tensord::testing {

// A size: a number, or an expression over symbols.
struct Dim {
  v1::SymExpr expr;
  Dim(int value);      // NOLINT: numbers are sizes
  Dim(int64_t value);  // NOLINT
  explicit Dim(v1::SymExpr e);
};

Dim MakeDim(v1::SymOp::Kind kind, const Dim& a, const Dim& b);
Dim operator+(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);
Dim FloorDiv(const Dim& a, const Dim& b);

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
  // NOLINTBEGIN(google-explicit-constructor): values are arguments
  Arg(std::nullptr_t);
  Arg(Ref r);
  Arg(int v);
  Arg(int64_t v);
  Arg(const Dim& d);
  Arg(double v);
  Arg(bool v);
  Arg(const char* v);
  Arg(v1::DType v);
  Arg(v1::DeviceType v);
  Arg(v1::MemoryFormat v);
  // NOLINTEND
  explicit Arg(v1::Argument p);
};

Arg List(const std::vector<Arg>& items);
Arg Ints(const Shape& values);

class GraphBuilder {
 public:
  explicit GraphBuilder(v1::DeviceType device = v1::DEVICE_TYPE_CPU) : device_(device) {}

  v1::Graph& graph() { return graph_; }

  Dim Symbol(int64_t hint, int64_t min = 2, int64_t max = int64_t{1} << 31);
  // One that data decides; the hint is arbitrary.
  Dim DataSymbol(int64_t hint, int64_t min = 0);

  // A tensor's meta; row-major where no strides are given.
  v1::TensorMeta Meta(const Shape& sizes, v1::DType dtype = v1::DTYPE_FLOAT32,
                      const Shape& strides = {}, const Dim& offset = 0) const;

  Ref Input(const Shape& sizes, v1::DType dtype = v1::DTYPE_FLOAT32, const Shape& strides = {});
  Ref Input(const v1::TensorMeta& meta);
  Ref SizeInput(const Dim& size);

  template <typename T>
  Ref Constant(const Shape& sizes, v1::DType dtype, const std::vector<T>& data) {
    return Constant(sizes, dtype, data.data(), data.size() * sizeof(T));
  }

  // `op` with its overload: "aten::add.Tensor". The node is named "n<number>".
  Ref Node(const std::string& op, const std::vector<Arg>& args,
           const std::vector<v1::TensorMeta>& outputs);
  Ref Node(const std::string& op, const std::vector<Arg>& args, const v1::TensorMeta& output);

  GraphBuilder& Output(const Arg& arg);

  static Shape RowMajor(const Shape& sizes);

 private:
  Ref Constant(const Shape& sizes, v1::DType dtype, const void* data, size_t bytes);
  Ref Last() const;

  v1::DeviceType device_;
  v1::Graph graph_;
};

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_GRAPH_BUILDER_H_
