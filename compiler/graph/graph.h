// SPDX-License-Identifier: Apache-2.0
// The verified graph: the proto's content with symbolic integers as expressions.
#ifndef TENSORD_COMPILER_GRAPH_GRAPH_H_
#define TENSORD_COMPILER_GRAPH_GRAPH_H_

#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/dtype.h"
#include "compiler/sym/expr.h"

namespace tensord::compiler {

using sym::Expr;

// A result of a value: (value number, which result).
using ValueId = std::pair<int, int>;

struct TensorType {
  DType dtype = v1::DTYPE_UNSPECIFIED;  // DTYPE_UNSPECIFIED: an absent optional result
  v1::DeviceType device = v1::DEVICE_TYPE_UNSPECIFIED;
  std::vector<Expr> sizes;
  std::vector<Expr> strides;
  Expr offset;
};

struct ArgumentValue {
  enum Kind {
    kNone,
    kValue,
    kInteger,
    kReal,
    kBoolean,
    kText,
    kDType,
    kDevice,
    kMemoryFormat,
    kLayout,
    kList
  } kind = kNone;
  int value = -1;  // kValue: value number
  int output = 0;  // kValue: which result
  Expr integer;    // kInteger; kBoolean as 0 or 1
  double real = 0;
  std::string text;
  DType dtype = v1::DTYPE_UNSPECIFIED;
  v1::DeviceType device = v1::DEVICE_TYPE_UNSPECIFIED;
  v1::MemoryFormat memory_format = v1::MEMORY_FORMAT_UNSPECIFIED;
  std::vector<ArgumentValue> items;
};

struct Node {
  std::string op;    // "aten::add.Tensor"; the default overload has no suffix
  std::string name;  // for people
  std::vector<ArgumentValue> args;
  std::vector<TensorType> outputs;
  bool library = false;  // must be a library call
};

struct GraphInput {
  bool is_tensor = true;
  TensorType tensor;
  Expr integer;
  std::string name;
  bool is_parameter = false;
  bool is_donated = false;  // see Input of graph.proto
};

// Values are numbered: inputs, constants, nodes.
struct Graph {
  std::vector<v1::Symbol> symbols;
  std::vector<GraphInput> inputs;
  std::vector<v1::Constant> constants;
  std::vector<TensorType> constant_types;
  std::vector<Node> nodes;
  std::vector<ArgumentValue> outputs;

  int FirstNodeValue() const { return static_cast<int>(inputs.size() + constants.size()); }
  // Of a value that is a tensor.
  const TensorType& TypeOf(int value, int output) const;
  const TensorType& TypeOf(ValueId value) const { return TypeOf(value.first, value.second); }
};

// "node 'NAME' (aten::op)": how every message about a node begins.
std::string Describe(const Node& node);

// The device for which code is generated: CUDA as soon as one tensor is there; CPU tensors beside
// it are numbers or belong to library calls.
v1::DeviceType DeviceOf(const Graph& graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_GRAPH_GRAPH_H_
