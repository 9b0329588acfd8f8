// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/layout.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>

namespace tensord::compiler {

std::vector<Expr> ContiguousStrides(const std::vector<Expr>& sizes) {
  std::vector<Expr> strides(sizes.size(), Expr(1));
  for (int d = static_cast<int>(sizes.size()) - 2; d >= 0; --d) {
    strides[d] = strides[d + 1] * (sizes[d + 1].Is(0) ? Expr(1) : sizes[d + 1]);
  }
  return strides;
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
    if (!(strides[d] == expected)) return false;
    expected *= sizes[d];
  }
  return true;
}

std::vector<Expr> BufferStrides(const TensorType& declared) {
  const bool is_empty = std::any_of(declared.sizes.begin(), declared.sizes.end(),
                                    [](const Expr& size) { return size.Is(0); });
  return !is_empty && IsDense(declared.sizes, declared.strides) ? declared.strides
                                                                : ContiguousStrides(declared.sizes);
}

int64_t ElementsHint(const TensorType& type) { return sym::Hint(sym::Product(type.sizes)); }
int64_t BytesHint(const TensorType& type) { return ElementsHint(type) * ItemSize(type.dtype); }

std::string TypeText(DType dtype, const std::vector<Expr>& sizes) {
  const auto append = [](std::string* out, const Expr& e) {
    absl::StrAppend(out, sym::ToString(e));
  };
  return absl::StrCat(DTypeName(dtype), "[", absl::StrJoin(sizes, ", ", append), "]");
}

}  // namespace tensord::compiler
