// SPDX-License-Identifier: Apache-2.0
// What the files of sym/ share about atoms.
#ifndef TENSORD_COMPILER_SYM_ATOMS_H_
#define TENSORD_COMPILER_SYM_ATOMS_H_

#include <cstdint>
#include <vector>

#include "compiler/sym/expr.h"

namespace tensord::sym {

inline bool IsSymbol(AtomKind kind) {
  return kind == AtomKind::kSize || kind == AtomKind::kLoop || kind == AtomKind::kIndirect;
}

// Rounds towards minus infinity; 0 for a zero divisor, which import has ruled out.
inline int64_t FloorDivInt(int64_t a, int64_t b) {
  if (b == 0) return 0;
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

// Rewrites (a / b) * b + a % b to a, with any common factor, in a canonical sum. True when it did.
bool CombineQuotientAndRemainder(Terms* terms);

}  // namespace tensord::sym

#endif  // TENSORD_COMPILER_SYM_ATOMS_H_
