// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/layout.h"

#include <algorithm>

namespace tensord::compiler {

std::vector<Expr> ContiguousStrides(const std::vector<Expr>& sizes) {
  std::vector<Expr> strides(sizes.size(), Expr(1));
  for (int d = static_cast<int>(sizes.size()) - 2; d >= 0; --d) {
    strides[d] = strides[d + 1] * (sizes[d + 1].Is(0) ? Expr(1) : sizes[d + 1]);
  }
  return strides;
}

namespace {

// x for max(1, x).
Expr WithoutLeastOfOne(const sym::AtomPtr& atom) {
  if (atom->kind == sym::AtomKind::kMax) {
    for (const int one : {0, 1}) {
      if (atom->args[one].Is(1)) return atom->args[1 - one];
    }
  }
  return Expr::FromAtom(atom);
}

}  // namespace

Expr StrideOfElements(const Expr& stride) {
  Expr sum;
  for (const sym::Term& term : stride.terms()) {
    Expr product(term.coefficient);
    for (const sym::AtomPtr& atom : term.atoms) product *= WithoutLeastOfOne(atom);
    sum += product;
  }
  return sum;
}

bool IsDense(const std::vector<Expr>& sizes, const std::vector<Expr>& strides) {
  std::vector<size_t> order;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!sizes[d].Is(1)) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return sym::Hint(strides[a]) < sym::Hint(strides[b]);
  });
  Expr expected(1);
  for (const size_t d : order) {
    if (!(StrideOfElements(strides[d]) == expected)) return false;
    expected *= sizes[d];
  }
  return true;
}

bool IsExpanded(const TensorType& type) {
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (type.strides[d].Is(0) && !type.sizes[d].Is(1)) return true;
  }
  return false;
}

std::vector<Expr> BufferStrides(const TensorType& declared) {
  const bool is_empty = std::any_of(declared.sizes.begin(), declared.sizes.end(),
                                    [](const Expr& size) { return size.Is(0); });
  if (is_empty || !IsDense(declared.sizes, declared.strides))
    return ContiguousStrides(declared.sizes);
  std::vector<Expr> strides;
  for (const Expr& stride : declared.strides) strides.push_back(StrideOfElements(stride));
  return strides;
}

int64_t ElementsHint(const TensorType& type) { return sym::Hint(sym::Product(type.sizes)); }
int64_t BytesHint(const TensorType& type) { return ElementsHint(type) * ItemSize(type.dtype); }

std::string TypeText(DType dtype, const std::vector<Expr>& sizes) {
  return DTypeName(dtype) + sym::ToString(sizes);
}

}  // namespace tensord::compiler
