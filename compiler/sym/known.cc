// SPDX-License-Identifier: Apache-2.0
#include "compiler/sym/known.h"

namespace tensord::sym {

bool DependsOnData(const Expr& e) {
  bool found = false;
  ForEachSymbol(e, [&](const Atom& atom) { found = found || atom.from_data; });
  return found;
}

bool MayBeEqual(const Expr& a, const Expr& b) {
  if (Hint(a) == Hint(b)) return true;
  return DependsOnData(a - b) && !ProvablyLess(a, b) && !ProvablyLess(b, a);
}

bool MayBeAtMost(const Expr& a, const Expr& b) {
  if (Hint(a) <= Hint(b)) return true;
  return DependsOnData(b - a) && !ProvablyLess(b, a);
}

bool IsOne(const Expr& e) { return e.Is(1) || (Hint(e) == 1 && !DependsOnData(e)); }

std::optional<bool> IsLess(const Expr& a, const Expr& b) {
  if (!DependsOnData(b - a)) return Hint(a) < Hint(b);
  if (ProvablyLess(a, b)) return true;
  if (ProvablyNonNegative(a - b)) return false;
  return std::nullopt;
}

}  // namespace tensord::sym
