// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/matrix_nodes.h"

#include <utility>

#include "compiler/graph/layout.h"

namespace tensord::compiler {

ValueId MatrixNodes::Add(int before, const std::string& op, const std::string& name,
                         std::vector<ArgumentValue> args, TensorType type) {
  return editor_->Insert(
      before, {.op = op, .name = name, .args = std::move(args), .outputs = {std::move(type)}});
}

ValueId MatrixNodes::Transposed(int before, const std::string& name, ValueId value) {
  TensorType type = editor_->TypeOf(value);
  const int last = static_cast<int>(type.sizes.size()) - 1;
  std::swap(type.sizes[last], type.sizes[last - 1]);
  std::swap(type.strides[last], type.strides[last - 1]);
  return Add(before, "aten::transpose.int", name,
             {ValueArg(value), IntegerArg(Expr(last - 1)), IntegerArg(Expr(last))},
             std::move(type));
}

ValueId MatrixNodes::ZeroPadded(int before, const std::string& name, ValueId value,
                                const std::vector<Expr>& sizes) {
  TensorType type = editor_->TypeOf(value);
  if (type.sizes == sizes) return value;
  type.sizes = sizes;
  type.strides = ContiguousStrides(sizes);
  type.offset = Expr(0);
  return Add(before, "tensord::zero_padded", name, {ValueArg(value), IntegersArg(sizes)},
             std::move(type));
}

ValueId MatrixNodes::FirstOf(int before, const std::string& name, ValueId value, int dim,
                             TensorType type) {
  const Expr length = type.sizes[dim];
  return Add(before, "aten::slice.Tensor", name,
             {ValueArg(value), IntegerArg(Expr(dim)), IntegerArg(Expr(0)), IntegerArg(length),
              IntegerArg(Expr(1))},
             std::move(type));
}

}  // namespace tensord::compiler
