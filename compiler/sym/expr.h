// SPDX-License-Identifier: Apache-2.0
// Symbolic integers: sizes, strides and index expressions.
//
// An Expr is a polynomial with integer coefficients over atoms; an atom is a symbol or a floor
// division, remainder, minimum or maximum of expressions. Expressions are immutable, kept in one
// canonical form (so structural equality is equality of polynomials) and cheap to copy.
#ifndef TENSORD_COMPILER_SYM_EXPR_H_
#define TENSORD_COMPILER_SYM_EXPR_H_

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tensord::sym {

class Expr;

// What an atom stands for.
enum class AtomKind : uint8_t {
  kSize,      // a symbolic size of the graph; at least `min`
  kLoop,      // a loop variable in [0, extent)
  kIndirect,  // an index loaded from memory, in [0, extent)
  kFloorDiv,  // args: dividend, divisor; rounds towards minus infinity
  kMod,       // args: dividend, divisor; sign of the divisor
  kMin,       // two args
  kMax,       // two args
};

struct Atom {
  AtomKind kind;
  int id = 0;              // of a symbol: unique within its kind
  int64_t min = 0;         // kSize: the least value
  int64_t hint = 0;        // kSize: the value seen at capture
  bool from_data = false;  // kSize: data decides it (known.h)
  std::vector<Expr> args;  // kLoop, kIndirect: {extent}; operations: operands
};
using AtomPtr = std::shared_ptr<const Atom>;

// Total order of atoms, the same in every process.
int Compare(const Atom& a, const Atom& b);

// coefficient * product of atoms; atoms sorted. Most have one atom, and most sums one term: those
// lie in one piece of memory, for a large graph has millions of them.
struct Term {
  int64_t coefficient;
  absl::InlinedVector<AtomPtr, 1> atoms;
};
using Terms = absl::InlinedVector<Term, 1>;

class Expr {
 public:
  Expr() : Expr(int64_t{0}) {}
  Expr(int64_t constant);                                       // NOLINT: integers are expressions
  Expr(int constant) : Expr(static_cast<int64_t>(constant)) {}  // NOLINT

  static Expr Size(int id, int64_t min, int64_t hint, bool from_data = false);
  static Expr Loop(int id, const Expr& extent);
  static Expr Indirect(int id, const Expr& extent);
  static Expr FromAtom(AtomPtr atom);
  static Expr FromTerms(Terms terms);

  // Terms sorted by their atoms; the constant term, if not zero, comes first.
  const Terms& terms() const { return *terms_; }

  bool IsConstant() const;
  std::optional<int64_t> AsConstant() const;
  bool Is(int64_t value) const { return AsConstant() == value; }
  // The symbol itself when the expression is one bare atom.
  const Atom* AsAtom() const;

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  Expr operator-() const;
  Expr& operator+=(const Expr& b) { return *this = *this + b; }
  Expr& operator*=(const Expr& b) { return *this = *this * b; }

  friend bool operator==(const Expr& a, const Expr& b) { return Compare(a, b) == 0; }
  friend bool operator<(const Expr& a, const Expr& b) { return Compare(a, b) < 0; }
  static int Compare(const Expr& a, const Expr& b);

 private:
  std::shared_ptr<const Terms> terms_;
};

// Simplified by exact division and by the ranges of symbols.
Expr FloorDiv(const Expr& a, const Expr& b);
Expr Mod(const Expr& a, const Expr& b);
Expr Min(const Expr& a, const Expr& b);
Expr Max(const Expr& a, const Expr& b);
Expr CeilDiv(const Expr& a, const Expr& b);
inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
Expr Product(const std::vector<Expr>& factors);

// a / b when b divides a exactly as polynomials.
std::optional<Expr> ExactDiv(const Expr& a, const Expr& b);

// True only when it holds for all values of all symbols in their ranges.
bool ProvablyNonNegative(const Expr& e);
// The same of e > 0; also of products and quotients of sizes.
bool ProvablyPositive(const Expr& e);
bool ProvablyLess(const Expr& a, const Expr& b);

using SymbolKey = std::pair<AtomKind, int>;
// Replaces symbols by expressions, everywhere, simplifying again.
using Substitution = std::map<SymbolKey, Expr>;
Expr Substitute(const Expr& e, const Substitution& with);

// Calls `visit` for every symbol atom, nested ones included.
void ForEachSymbol(const Expr& e, const std::function<void(const Atom&)>& visit);
bool Contains(const Expr& e, SymbolKey symbol);
// True when a symbol of this kind occurs.
bool ContainsKind(const Expr& e, AtomKind kind);

// The coefficient c of `symbol` when e == c * symbol + rest and rest and c are free of it; nothing
// when e is not affine in it.
std::optional<Expr> LinearCoefficient(const Expr& e, SymbolKey symbol);

// The value with sizes at their hints; loop and indirect symbols count as 0.
int64_t Hint(const Expr& e);
int64_t Evaluate(const Expr& e, const std::function<int64_t(const Atom&)>& value_of);

// C++ text; `name_of` gives the text of a symbol. Divisions of provably non-negative operands use
// `/` and `%`, others `tk::floor_div_index` and `tk::mod_index`.
std::string ToCpp(const Expr& e, const std::function<std::string(const Atom&)>& name_of);
// For people: "4*s0 + i1".
std::string ToString(const Expr& e);
// "[n, 4]"
std::string ToString(const std::vector<Expr>& list);

// Name of a symbol for people: s0, i0, x0.
std::string SymbolName(const Atom& symbol);

}  // namespace tensord::sym

#endif  // TENSORD_COMPILER_SYM_EXPR_H_
