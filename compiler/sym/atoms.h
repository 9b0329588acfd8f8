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

// Numbers of an argument may be as large as they like ("to the end" of a slice is the largest there
// is), and what nobody means leaves 64 bits: it wraps around, as C++ leaves undefined for signed
// ones.
inline int64_t Sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t Times(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Rounds towards minus infinity; 0 for a zero divisor, which import has ruled out.
inline int64_t FloorDivInt(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return Times(a, -1);
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

// What FloorDivInt leaves; of the divisor's sign.
inline int64_t RemainderInt(int64_t a, int64_t b) {
  return Sum(a, Times(-1, Times(FloorDivInt(a, b), b)));
}

// Rewrites (a / b) * b + a % b to a, with any common factor, in a canonical sum. True when it did.
bool CombineQuotientAndRemainder(Terms* terms);

}  // namespace tensord::sym

#endif  // TENSORD_COMPILER_SYM_ATOMS_H_
