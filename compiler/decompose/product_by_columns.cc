// A product whose result has rows of a length that the library is slow with, and is given out.
//
// tensord::product_by_columns(a [m, k], w [n, k], added [n]?, int width): a times w transposed. It
// is computed `width` columns at a time into memory of its own, from which they are copied, so that
// the result is in memory once, and of a converted weight only a part.
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "compiler/decompose/extern_call.h"
#include "compiler/decompose/lowering.h"

namespace tensord::compiler {
namespace {

Results ProductByColumns(Builder& b, const Call& call) {
  const Tensor w = call.tensor(1);
  const std::optional<Tensor> added = call.optional_tensor(2);
  const int64_t width = call.constant(3);
  const Sizes &left = call.tensor(0).sizes(), &right = w.sizes();
  if (left.size() != 2 || right.size() != 2 || sym::Hint(left[1]) != sym::Hint(right[1]) ||
      !right[0].IsConstant() || width < 1 || sym::Hint(right[0]) < width) {
    return absl::InvalidArgumentError("the operands are no matrices that fit");
  }
  const int64_t columns = sym::Hint(right[0]);
  const Tensor a = b.Realize(call.tensor(0));
  const Tensor whole = b.Allocate(a.dtype(), {left[0], right[0]});
  // One for all parts: each is copied before the next is computed. The same with what is to be
  // computed of the weight.
  const Tensor product = b.Allocate(a.dtype(), {left[0], Expr(width)});
  const Tensor converted = w.view() ? Tensor() : b.Allocate(w.dtype(), {Expr(width), right[1]});
  v1::Argument one;
  one.mutable_integer()->set_constant(1);
  for (int64_t next = 0; next < columns; next += width) {
    // The last columns overlap with those before them.
    const Expr start(std::min(next, columns - width));
    Tensor part = b.Slice(w, 0, start, Expr(width), 1);
    if (!part.view()) {
      b.Assign(converted, part);
      part = converted;
    }
    ExternArgList args = {b.TensorArg(a), b.TensorArg(b.Permute(part, {1, 0}))};
    if (added) {
      // A copy: slices of the bias itself may begin anywhere.
      const Tensor bias = LazyCopy(b, b.Slice(*added, 0, start, Expr(width), 1));
      args.insert(args.begin(), b.TensorArg(bias));
      args.insert(args.end(), {{one}, {one}});
    }
    b.ExternInto(added ? "aten::addmm" : "aten::mm", "out", std::move(args), product);
    b.Assign(b.Slice(whole, 1, start, Expr(width), 1), product);
  }
  return std::vector<Tensor>{whole};
}

const Operator kOperators[] = {
    {"tensord::product_by_columns", "T T T? i", ProductByColumns},
};

}  // namespace

std::span<const Operator> PartedProductOperators() { return kOperators; }

}  // namespace tensord::compiler
