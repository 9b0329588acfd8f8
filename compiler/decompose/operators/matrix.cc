// Matrix products, by the library into buffers of ours: their place is then known to the memory
// planner, and what follows can be fused with other readers. Convolutions and attention need no
// line here: they are called as they were captured.
#include <absl/strings/str_cat.h>

#include "compiler/decompose/extern_call.h"
#include "compiler/decompose/layout.h"
#include "compiler/decompose/lowering.h"

namespace tensord::compiler {
namespace {

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
    const Tensor t = call.tensor(static_cast<int>(i));
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

bool Agree(const Expr& a, const Expr& b) { return sym::Hint(a) == sym::Hint(b); }

absl::Status Mismatch(const Tensor& a, const Tensor& c) {
  return absl::InvalidArgumentError(absl::StrCat("cannot multiply ", TypeText(a.dtype(), a.sizes()),
                                                 " and ", TypeText(c.dtype(), c.sizes())));
}

// The sizes of a product of matrices (batch 0) or of batches of them (batch 1).
absl::StatusOr<Sizes> ProductSizes(const Tensor& a, const Tensor& c, int batch) {
  if (a.rank() != 2 + batch || c.rank() != 2 + batch ||
      !Agree(a.sizes()[1 + batch], c.sizes()[batch]) ||
      (batch == 1 && !Agree(a.sizes()[0], c.sizes()[0]))) {
    return Mismatch(a, c);
  }
  Sizes sizes = a.sizes();
  sizes.back() = c.sizes().back();
  return sizes;
}

template <int batch>
Results Product(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Sizes sizes, ProductSizes(call.tensor(0), call.tensor(1), batch));
  return CallOut(b, call, sizes);
}

template <int batch>
Results AddProduct(Builder& b, const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Sizes sizes, ProductSizes(call.tensor(1), call.tensor(2), batch));
  const std::optional<Sizes> both = BroadcastSizes(call.tensor(0).sizes(), sizes);
  if (!both || both->size() != sizes.size()) {
    return absl::InvalidArgumentError("what is added does not broadcast to the product");
  }
  return CallOut(b, call, sizes);
}

// tensord::residual_product(residual [m, n], a [m, k], c [k, n], bias [n]): relu(residual + a c +
// bias). Three calls of torch's, which the runtime makes one where the library has it; the result
// may lie where the residual was.
Results ResidualProduct(Builder& b, const Call& call) {
  const Tensor residual = call.tensor(0), bias = call.tensor(3);
  TENSORD_ASSIGN_OR_RETURN(const Sizes sizes, ProductSizes(call.tensor(1), call.tensor(2), 0));
  if (residual.sizes() != sizes || bias.rank() != 1 || !Agree(bias.sizes()[0], sizes[1])) {
    return absl::InvalidArgumentError("what is added does not fit the product");
  }
  const ExternArg one = ScalarArg(1);
  ExternArgList product;
  for (int i = 0; i < 3; ++i) product.push_back(b.TensorArg(call.tensor(i)));
  product.insert(product.end(), {one, one});
  const ExternArg added = b.TensorArg(bias);  // there before the product, which the rest follows
  const Tensor out = b.Allocate(residual.dtype(), sizes);
  const auto view = [&] { return b.TensorArg(out); };
  b.ExternInto("aten::addmm", "out", std::move(product), out, /*overwrites=*/0);
  b.ExternInto("aten::add", "out", {view(), added, one}, out);
  b.ExternInto("aten::relu", "out", {view()}, out);
  return std::vector<Tensor>{out};
}

Results Dot(Builder& b, const Call& call) {
  const Tensor a = call.tensor(0), c = call.tensor(1);
  if (a.rank() != 1 || c.rank() != 1 || !Agree(a.sizes()[0], c.sizes()[0])) return Mismatch(a, c);
  return CallOut(b, call, {});
}

// Matrix times vector; the matrix is argument `matrix`.
template <int matrix>
Results MatrixVector(Builder& b, const Call& call) {
  const Tensor a = call.tensor(matrix), c = call.tensor(matrix + 1);
  if (a.rank() != 2 || c.rank() != 1 || !Agree(a.sizes()[1], c.sizes()[0])) return Mismatch(a, c);
  return CallOut(b, call, {a.sizes()[0]});
}

const Operator kOperators[] = {
    {"aten::mm", "T T", Product<0>},
    {"aten::bmm", "T T", Product<1>},
    {"aten::addmm", "T T T s s", AddProduct<0>},
    {"aten::_addmm_activation", "T T T s s b", AddProduct<0>},
    {"aten::baddbmm", "T T T s s", AddProduct<1>},
    {"tensord::residual_product", "T T T T", ResidualProduct},
    {"aten::dot", "T T", Dot},
    {"aten::mv", "T T", MatrixVector<0>},
    {"aten::addmv", "T T T s s", MatrixVector<1>},
};

}  // namespace

std::span<const Operator> MatrixOperators() { return kOperators; }

}  // namespace tensord::compiler
