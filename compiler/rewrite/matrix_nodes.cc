// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/matrix_nodes.h"

#include <utility>

#include "compiler/graph/layout.h"

namespace tensord::compiler {

ValueId MatrixNodes::Add(int before, const std::string& op, const std::string& name,
                         const NamedArguments& args, TensorType type) {
  return editor_->Insert(before, MakeNode(op, name, args, std::move(type)));
}

ValueId MatrixNodes::Transposed(int before, const std::string& name, ValueId value) {
  TensorType type = editor_->TypeOf(value);
  const int last = static_cast<int>(type.sizes.size()) - 1;
  std::swap(type.sizes[last], type.sizes[last - 1]);
  std::swap(type.strides[last], type.strides[last - 1]);
  return Add(before, "aten::transpose.int", name,
             {{"self", ValueArg(value)},
              {"dim0", IntegerArg(Expr(last - 1))},
              {"dim1", IntegerArg(Expr(last))}},
             std::move(type));
}

ValueId MatrixNodes::ZeroPadded(int before, const std::string& name, ValueId value,
                                const std::vector<Expr>& sizes) {
  TensorType type = editor_->TypeOf(value);
  if (type.sizes == sizes) return value;
  type.sizes = sizes;
  type.strides = ContiguousStrides(sizes);
  type.offset = Expr(0);
  return Add(before, "tensord::zero_padded", name,
             {{"self", ValueArg(value)}, {"size", IntegersArg(sizes)}}, std::move(type));
}

ValueId MatrixNodes::FirstOf(int before, const std::string& name, ValueId value, int dim,
                             TensorType type) {
  const Expr length = type.sizes[dim];
  return Add(before, "aten::slice.Tensor", name,
             {{"self", ValueArg(value)},
              {"dim", IntegerArg(Expr(dim))},
              {"start", IntegerArg(Expr(0))},
              {"end", IntegerArg(length)},
              {"step", IntegerArg(Expr(1))}},
             std::move(type));
}

ValueId MatrixNodes::Broadcast(int before, const std::string& name, ValueId value,
                               const Expr& batch) {
  TensorType type = editor_->TypeOf(value);
  type.sizes[0] = batch;
  type.strides[0] = Expr(0);
  const ArgumentValue sizes = IntegersArg(type.sizes);
  return Add(before, "aten::expand", name,
             {{"self", ValueArg(value)}, {"size", sizes}, {"implicit", BooleanArg(false)}},
             std::move(type));
}

}  // namespace tensord::compiler
