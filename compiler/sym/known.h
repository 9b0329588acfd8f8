// SPDX-License-Identifier: Apache-2.0
// What is known of sizes when a program is compiled.
//
// Of most symbols the job's guards hold what was true at capture, so their hints tell. Where data
// decides a symbol nothing holds its hint: torch asserts in the job that sizes fit each other, and
// a choice between two forms of code must be one that holds for all values.
#ifndef TENSORD_COMPILER_SYM_KNOWN_H_
#define TENSORD_COMPILER_SYM_KNOWN_H_

#include <optional>

#include "compiler/sym/expr.h"

namespace tensord::sym {

// True when data decides a symbol in `e`.
bool DependsOnData(const Expr& e);

// For checks of what a graph says: false when it cannot be; true where data decides.
bool MayBeEqual(const Expr& a, const Expr& b);
bool MayBeAtMost(const Expr& a, const Expr& b);  // a <= b
inline bool MayBeSize(const Expr& e) { return MayBeAtMost(Expr(0), e); }

// For broadcasting: a size of 1, which torch asks of each size that meets another one, so that a
// guard of the job holds it.
bool IsOne(const Expr& e);

// For choices: whether a < b; nothing where data decides and no range tells.
std::optional<bool> IsLess(const Expr& a, const Expr& b);
inline std::optional<bool> IsNegative(const Expr& e) { return IsLess(e, Expr(0)); }

}  // namespace tensord::sym

#endif  // TENSORD_COMPILER_SYM_KNOWN_H_
