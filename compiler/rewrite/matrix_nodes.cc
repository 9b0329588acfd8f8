#include "compiler/rewrite/matrix_nodes.h"

#include <utility>

#include "compiler/loop_ir/program.h"

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

// Joined with zeros instead of aten::constant_pad_nd: the value is then computed in its place by a
// loop of its own shape, which fuses with what made it and has no condition inside.
ValueId MatrixNodes::Extended(int before, const std::string& name, ValueId value, int dim,
                              int64_t by) {
  if (by == 0) return value;
  TensorType type = editor_->TypeOf(value), zeros = type;
  type.offset = zeros.offset = Expr(0);
  type.sizes[dim] += Expr(by);
  zeros.sizes[dim] = Expr(by);
  type.strides = ContiguousStrides(type.sizes);
  zeros.strides = ContiguousStrides(zeros.sizes);
  ArgumentValue dtype{.kind = ArgumentValue::kDType}, parts{.kind = ArgumentValue::kList};
  dtype.dtype = type.dtype;
  const ArgumentValue none = NoneArgument();
  const ValueId filling =
      Add(before, "aten::full", name,
          {IntegersArg(zeros.sizes), RealArg(0), dtype, none, none, none}, zeros);
  parts.items = {ValueArg(value), ValueArg(filling)};
  return Add(before, "aten::cat", name, {parts, IntegerArg(Expr(dim))}, std::move(type));
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
