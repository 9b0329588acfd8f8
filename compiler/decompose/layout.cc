// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/layout.h"

#include <algorithm>

#include "compiler/decompose/extern_call.h"
#include "compiler/graph/layout.h"

namespace tensord::compiler {
namespace {

bool IsEmpty(const Sizes& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](const Expr& size) { return size.Is(0); });
}

}  // namespace

bool HasStrides(const Tensor& t, const Sizes& strides) {
  if (!t.view()) return false;
  if (IsEmpty(t.sizes())) return true;
  for (size_t d = 0; d < strides.size(); ++d) {
    if (t.sizes()[d].Is(1)) continue;
    if (!(StrideOfElements(t.view()->strides[d]) == StrideOfElements(strides[d]))) return false;
  }
  return true;
}

Tensor WithStrides(Builder& b, const Tensor& t, const Sizes& strides) {
  if (HasStrides(t, strides)) return b.AsStrided(t, t.sizes(), strides, t.view()->offset);
  // Along a stride of 0 all elements are one: compute it once and spread the view again.
  Tensor base = t;
  Sizes kept;
  for (int d = static_cast<int>(strides.size()) - 1; d >= 0; --d) {
    if (strides[d].Is(0) && !t.sizes()[d].Is(1)) {
      base = b.Select(base, d, Expr(0));
    } else {
      kept.insert(kept.begin(), strides[d]);
    }
  }
  const Tensor realized =
      base.device() == b.device() ? b.RealizeAs(base, kept) : CopyWhereItLies(b, base, kept);
  return b.AsStrided(realized, t.sizes(), strides, realized.view()->offset);
}

}  // namespace tensord::compiler
