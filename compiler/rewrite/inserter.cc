// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/inserter.h"

#include <algorithm>

#include "compiler/graph/layout.h"

namespace tensord::compiler {
namespace {

// As eager lays out the result of a pointwise operator over one such tensor.
TensorType Fresh(TensorType type) {
  type.strides = BufferStrides(type);
  type.offset = Expr(0);
  return type;
}

}  // namespace

ValueId Inserter::Node(std::string op, const NamedArguments& args, TensorType type) {
  const std::string name = named_as_ < static_cast<int>(editor_.graph().nodes.size())
                               ? editor_.node(named_as_).name
                               : "end";
  return editor_.Insert(before_, MakeNode(std::move(op), name, args, std::move(type)));
}

ValueId Inserter::Cast(ValueId value, DType dtype) {
  TensorType type = TypeOf(value);
  if (type.dtype == dtype) return value;
  type = Fresh(std::move(type));
  type.dtype = dtype;
  return Node("prims::convert_element_type", {{"a", ValueArg(value)}, {"dtype", DTypeArg(dtype)}},
              std::move(type));
}

ValueId Inserter::Map(std::string op, ValueId value) {
  return Node(std::move(op), {{"self", ValueArg(value)}}, Fresh(TypeOf(value)));
}
ValueId Inserter::Add(ValueId a, ValueId b) { return Sum("aten::add.Tensor", a, ValueArg(b)); }
ValueId Inserter::Subtract(ValueId a, ValueId b) { return Sum("aten::sub.Tensor", a, ValueArg(b)); }
ValueId Inserter::Multiply(ValueId a, ValueId b) {
  return Node("aten::mul.Tensor", {{"self", ValueArg(a)}, {"other", ValueArg(b)}},
              Fresh(TypeOf(a)));
}
ValueId Inserter::AddNumber(ValueId a, double number) {
  return Sum("aten::add.Tensor", a, RealArg(number));
}
ValueId Inserter::Sum(std::string op, ValueId a, ArgumentValue other) {
  return Node(std::move(op),
              {{"self", ValueArg(a)}, {"other", std::move(other)}, {"alpha", IntegerArg(1)}},
              Fresh(TypeOf(a)));
}

ValueId Inserter::Product(ValueId a, ValueId b, std::optional<ValueId> bias, std::string biased,
                          const NamedArguments& more) {
  TensorType type = TypeOf(a);
  type.sizes[1] = TypeOf(b).sizes[1];
  type.strides = ContiguousStrides(type.sizes);
  type.offset = Expr(0);
  if (!bias) {
    return Node("aten::mm", {{"self", ValueArg(a)}, {"mat2", ValueArg(b)}}, std::move(type));
  }
  NamedArguments args{{"self", ValueArg(*bias)},
                      {"mat1", ValueArg(a)},
                      {"mat2", ValueArg(b)},
                      {"beta", IntegerArg(1)},
                      {"alpha", IntegerArg(1)}};
  args.insert(args.end(), more.begin(), more.end());
  return Node(std::move(biased), std::move(args), std::move(type));
}

ValueId Inserter::View(ValueId value, const std::vector<Expr>& sizes) {
  TensorType type = TypeOf(value);
  type.sizes = sizes;
  type.strides = ContiguousStrides(sizes);
  return Node("aten::view", {{"self", ValueArg(value)}, {"size", IntegersArg(sizes)}},
              std::move(type));
}

ValueId Inserter::Permute(ValueId value, const std::vector<int>& order) {
  TensorType type = TypeOf(value);
  const TensorType from = type;
  std::vector<Expr> dims;
  for (size_t d = 0; d < order.size(); ++d) {
    type.sizes[d] = from.sizes[order[d]];
    type.strides[d] = from.strides[order[d]];
    dims.push_back(Expr(order[d]));
  }
  return Node("aten::permute", {{"self", ValueArg(value)}, {"dims", IntegersArg(dims)}},
              std::move(type));
}

ValueId Inserter::Pixels(ValueId images) {
  const std::vector<Expr> s = TypeOf(images).sizes;
  return View(Permute(images, {0, 2, 3, 1}), {s[0] * s[2] * s[3], s[1]});
}
ValueId Inserter::Images(ValueId pixels, const std::vector<Expr>& sizes) {
  return Permute(View(pixels, {sizes[0], sizes[2], sizes[3], sizes[1]}), {0, 3, 1, 2});
}

ValueId Inserter::ChannelSums(ValueId value) {
  TensorType type = TypeOf(value);
  std::vector<Expr> dims;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (d != 1) dims.emplace_back(static_cast<int64_t>(d));
  }
  type.sizes = {type.sizes[1]};
  type.strides = {Expr(1)};
  type.offset = Expr(0);
  return Node(
      "aten::sum.dim_IntList",
      {{"self", ValueArg(value)}, {"dim", IntegersArg(dims)}, {"keepdim", BooleanArg(false)}},
      std::move(type));
}

ValueId Inserter::Pad(ValueId value, const std::vector<std::pair<int64_t, int64_t>>& zeros) {
  TensorType type = TypeOf(value);
  std::vector<Expr> pairs;  // from the last dimension on
  for (size_t d = zeros.size(); d-- > 0;) {
    const auto& [before, behind] = zeros[d];
    type.sizes[d] += Expr(before + behind);
    pairs.insert(pairs.end(), {Expr(before), Expr(behind)});
  }
  type.strides = ContiguousStrides(type.sizes);
  type.offset = Expr(0);
  return Node("aten::constant_pad_nd",
              {{"self", ValueArg(value)}, {"pad", IntegersArg(pairs)}, {"value", RealArg(0)}},
              std::move(type));
}

ValueId Inserter::InLayout(ValueId value, const std::vector<Expr>& strides) {
  TensorType type = TypeOf(value);
  const bool same = std::equal(strides.begin(), strides.end(), type.strides.begin());
  if (same) return value;
  type.strides = strides;
  type.offset = Expr(0);
  return Node("aten::clone", {{"self", ValueArg(value)}}, std::move(type));
}

ValueId Inserter::AlongDim(ValueId vector, int dim, int rank) {
  std::vector<Expr> sizes(rank - dim, Expr(1));
  sizes[0] = TypeOf(vector).sizes[0];
  return View(vector, sizes);
}

}  // namespace tensord::compiler
