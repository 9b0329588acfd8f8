// SPDX-License-Identifier: Apache-2.0
// Matrix products, by the library into buffers of ours: their place is then known to the memory
// planner, and what follows can be fused with other readers. Convolutions and attention need no
// line here: they are called as they were captured.
#include <absl/strings/str_cat.h>

#include "compiler/decompose/extern_call.h"
#include "compiler/decompose/layout.h"
#include "compiler/decompose/lowering.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

// An operand. The stride of a size of 1 is the captured one: it says nothing of the elements, but
// to libraries how to sum.
Tensor OperandOf(Builder& b, const Call& call, const ArgumentValue& arg) {
  const Tensor t = call.tensor_of(arg);
  const TensorType& type = call.type_of(arg);
  return t.sizes() == type.sizes && HasStrides(t, type.strides) ? WithStrides(b, t, type.strides)
                                                                : t;
}

// The operator's out= overload with the captured arguments.
Results CallOut(Builder& b, const Call& call, const Sizes& sizes) {
  const Node& node = call.node();
  ExternArgList args;
  DType dtype = v1::DTYPE_UNSPECIFIED;
  for (size_t i = 0; i < node.args.size(); ++i) {
    if (node.args[i].kind != ArgumentValue::kValue) {
      args.push_back(ScalarArg(node.args[i]));
      continue;
    }
    const Tensor t = OperandOf(b, call, node.args[i]);
    if (dtype == v1::DTYPE_UNSPECIFIED) dtype = t.dtype();
    if (t.dtype() != dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat("the operands are ", DTypeName(dtype), " and ", DTypeName(t.dtype())));
    }
    args.push_back(b.TensorArg(t));
  }
  const TensorType& declared = call.result();
  const bool same_rank = declared.sizes.size() == sizes.size();
  const Sizes strides = same_rank ? BufferStrides(declared) : ContiguousStrides(sizes);
  return std::vector<Tensor>{b.ExternOut(node.op.substr(0, node.op.find('.')), "out",
                                         std::move(args), {dtype, sizes, strides})};
}

absl::Status Mismatch(const Tensor& a, const Tensor& c) {
  return absl::InvalidArgumentError(absl::StrCat("cannot multiply ", TypeText(a.dtype(), a.sizes()),
                                                 " and ", TypeText(c.dtype(), c.sizes())));
}

// The sizes of a product of matrices (batch 0) or of batches of them (batch 1).
absl::StatusOr<Sizes> ProductSizes(const Tensor& a, const Tensor& c, int batch) {
  if (a.rank() != 2 + batch || c.rank() != 2 + batch ||
      !sym::MayBeEqual(a.sizes()[1 + batch], c.sizes()[batch]) ||
      (batch == 1 && !sym::MayBeEqual(a.sizes()[0], c.sizes()[0]))) {
    return Mismatch(a, c);
  }
  Sizes sizes = a.sizes();
  sizes.back() = c.sizes().back();
  return sizes;
}

template <int batch>
Results Product(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Sizes sizes,
                           ProductSizes(call.tensor("self"), call.tensor("mat2"), batch));
  return CallOut(b, call, sizes);
}

template <int batch>
Results AddProduct(Builder& b, const Call& call) {
  const std::vector<Tensor> operands = call.tensor_operands();  // what is added, and two factors
  TENSORD_ASSIGN_OR_RETURN(const Sizes sizes, ProductSizes(operands[1], operands[2], batch));
  const std::optional<Sizes> both = BroadcastSizes(operands[0].sizes(), sizes);
  if (!both || both->size() != sizes.size()) {
    return absl::InvalidArgumentError("what is added does not broadcast to the product");
  }
  return CallOut(b, call, sizes);
}

// tensord::residual_product(residual [m, n], a [m, k], c [k, n], bias [n]): relu(residual + a c +
// bias). Three calls of torch's, which the runtime makes one where the library has it; the result
// may lie where the residual was.
Results ResidualProduct(Builder& b, const Call& call) {
  const Tensor residual = call.tensor("residual"), bias = call.tensor("bias");
  TENSORD_ASSIGN_OR_RETURN(const Sizes sizes,
                           ProductSizes(call.tensor("mat1"), call.tensor("mat2"), 0));
  if (residual.sizes() != sizes || bias.rank() != 1 ||
      !sym::MayBeEqual(bias.sizes()[0], sizes[1])) {
    return absl::InvalidArgumentError("what is added does not fit the product");
  }
  const ExternArg one = ScalarArg(1);
  ExternArgList product = {b.TensorArg(residual), b.TensorArg(call.tensor("mat1")),
                           b.TensorArg(call.tensor("mat2")), one, one};
  const ExternArg added = b.TensorArg(bias);  // there before the product, which the rest follows
  const Tensor out = b.Allocate(residual.dtype(), sizes);
  const auto view = [&] { return b.TensorArg(out); };
  b.ExternInto("aten::addmm", "out", std::move(product), out, /*overwrites=*/0);
  b.ExternInto("aten::add", "out", {view(), added, one}, out);
  b.ExternInto("aten::relu", "out", {view()}, out);
  return std::vector<Tensor>{out};
}

Results Dot(Builder& b, const Call& call) {
  const Tensor a = call.tensor("self"), c = call.tensor("tensor");
  if (a.rank() != 1 || c.rank() != 1 || !sym::MayBeEqual(a.sizes()[0], c.sizes()[0]))
    return Mismatch(a, c);
  return CallOut(b, call, {});
}

// Matrix times vector.
Results MatrixVector(Builder& b, const Call& call, const Tensor& a, const Tensor& c) {
  if (a.rank() != 2 || c.rank() != 1 || !sym::MayBeEqual(a.sizes()[1], c.sizes()[0]))
    return Mismatch(a, c);
  return CallOut(b, call, {a.sizes()[0]});
}

Results Mv(Builder& b, const Call& call) {
  return MatrixVector(b, call, call.tensor("self"), call.tensor("vec"));
}
Results AddMv(Builder& b, const Call& call) {
  return MatrixVector(b, call, call.tensor("mat"), call.tensor("vec"));
}

const Lowering kMatrixLowerings[] = {
    {"aten::mm", Product<0>},
    {"aten::bmm", Product<1>},
    {"aten::addmm", AddProduct<0>},
    {"aten::_addmm_activation", AddProduct<0>},
    {"aten::baddbmm", AddProduct<1>},
    {"tensord::residual_product", ResidualProduct},
    {"aten::dot", Dot},
    {"aten::mv", Mv},
    {"aten::addmv", AddMv},
};

}  // namespace

std::span<const Lowering> MatrixLowerings() { return kMatrixLowerings; }

}  // namespace tensord::compiler
