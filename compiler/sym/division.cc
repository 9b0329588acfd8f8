// SPDX-License-Identifier: Apache-2.0
// Ranges of expressions, and division simplified by them.
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "compiler/sym/atoms.h"
#include "compiler/sym/expr.h"
#include "compiler/sym/remembered.h"

namespace tensord::sym {
namespace {

// a / b for monomials, if exact.
std::optional<Term> DivideTerm(const Term& a, const Term& b) {
  if (b.coefficient == 0 || RemainderInt(a.coefficient, b.coefficient) != 0) return std::nullopt;
  Term quotient{FloorDivInt(a.coefficient, b.coefficient), a.atoms};
  for (const AtomPtr& atom : b.atoms) {
    auto it = std::find_if(quotient.atoms.begin(), quotient.atoms.end(),
                           [&](const AtomPtr& x) { return Compare(*x, *atom) == 0; });
    if (it == quotient.atoms.end()) return std::nullopt;
    quotient.atoms.erase(it);
  }
  return quotient;
}

Expr MakeAtom(AtomKind kind, std::vector<Expr> args) {
  auto atom = std::make_shared<Atom>();
  atom->kind = kind;
  atom->args = std::move(args);
  return Expr::FromAtom(std::move(atom));
}

// Bounds of an atom that are free of loop symbols where possible.
std::optional<Expr> UpperBound(const Atom& atom);
bool LowerBoundIsZero(const Atom& atom) {
  switch (atom.kind) {
    case AtomKind::kLoop:
    case AtomKind::kIndirect:
      return true;
    case AtomKind::kMod:
      return ProvablyNonNegative(atom.args[1]);
    case AtomKind::kFloorDiv:
    case AtomKind::kMax:
    case AtomKind::kMin:
      return (ProvablyNonNegative(atom.args[0]) && ProvablyNonNegative(atom.args[1])) ||
             (atom.kind == AtomKind::kMax &&
              (ProvablyNonNegative(atom.args[0]) || ProvablyNonNegative(atom.args[1])));
    case AtomKind::kSize:
      return atom.min >= 0;
  }
  return false;
}

// Replaces every loop-like atom by the end of its range that makes `e` least (want_least) or
// greatest. Nothing when a sign is not known.
std::optional<Expr> Extreme(const Expr& e, bool want_least) {
  Expr current = e;
  for (int guard = 0; guard < 32; ++guard) {
    AtomPtr target;
    for (const Term& term : current.terms()) {
      for (const AtomPtr& atom : term.atoms) {
        if (atom->kind != AtomKind::kSize) {
          target = atom;
          break;
        }
      }
      if (target) break;
    }
    if (!target) return current;
    if (!LowerBoundIsZero(*target)) return std::nullopt;
    // Splits current into those terms with the atom (degree one) and the rest.
    Terms with, rest;
    bool all_positive = true, all_negative = true;
    for (const Term& term : current.terms()) {
      int degree = 0;
      Term cofactor{term.coefficient, {}};
      for (const AtomPtr& atom : term.atoms) {
        if (Compare(*atom, *target) == 0) {
          ++degree;
        } else {
          cofactor.atoms.push_back(atom);
        }
      }
      if (degree == 0) {
        rest.push_back(term);
        continue;
      }
      if (degree > 1) return std::nullopt;
      for (const AtomPtr& atom : cofactor.atoms) {
        if (!LowerBoundIsZero(*atom)) return std::nullopt;
      }
      (term.coefficient > 0 ? all_negative : all_positive) = false;
      with.push_back(std::move(cofactor));
    }
    const bool at_zero = want_least ? all_positive : all_negative;
    const bool at_end = want_least ? all_negative : all_positive;
    if (at_zero) {
      current = Expr::FromTerms(std::move(rest));
    } else if (at_end) {
      std::optional<Expr> end = UpperBound(*target);
      if (!end) return std::nullopt;
      current = Expr::FromTerms(std::move(rest)) + Expr::FromTerms(std::move(with)) * *end;
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<Expr> UpperBound(const Atom& atom) {
  switch (atom.kind) {
    case AtomKind::kLoop:
    case AtomKind::kIndirect:
      return atom.args[0] - 1;
    case AtomKind::kMod:
      return atom.args[1] - 1;
    case AtomKind::kFloorDiv: {
      std::optional<Expr> top = Extreme(atom.args[0], /*want_least=*/false);
      if (!top || !ProvablyNonNegative(atom.args[1] - 1)) return std::nullopt;
      return FloorDiv(*top, atom.args[1]);
    }
    case AtomKind::kMin: {
      std::optional<Expr> top = Extreme(atom.args[0], false);
      return top ? top : Extreme(atom.args[1], false);
    }
    default:
      return std::nullopt;
  }
}

// Splits a into multiple * b + rest by whole terms.
void SplitMultiple(const Expr& a, const Expr& b, Expr* multiple, Expr* rest) {
  if (b.terms().size() == 1) {
    Terms quotient, remainder;
    for (const Term& term : a.terms()) {
      if (auto q = DivideTerm(term, b.terms()[0])) {
        quotient.push_back(*q);
      } else if (term.atoms.empty() && b.IsConstant() && *b.AsConstant() > 0) {
        // Constants split into a multiple and a remainder in [0, b).
        const int64_t d = *b.AsConstant();
        const int64_t q0 = FloorDivInt(term.coefficient, d);
        if (q0 != 0) quotient.push_back({q0, {}});
        remainder.push_back({term.coefficient - q0 * d, {}});
      } else {
        remainder.push_back(term);
      }
    }
    *multiple = Expr::FromTerms(std::move(quotient));
    *rest = Expr::FromTerms(std::move(remainder));
    return;
  }
  if (auto q = ExactDiv(a, b)) {
    *multiple = *q;
    *rest = Expr(0);
  } else {
    *multiple = Expr(0);
    *rest = a;
  }
}

// The common factor of all coefficients of `e`.
int64_t Content(const Expr& e) {
  int64_t g = 0;
  for (const Term& term : e.terms()) g = std::gcd(g, std::abs(term.coefficient));
  return g;
}

Expr ScaleDown(const Expr& e, int64_t by) {
  Terms terms = e.terms();
  for (Term& term : terms) term.coefficient /= by;
  return Expr::FromTerms(std::move(terms));
}

}  // namespace

std::optional<Expr> ExactDiv(const Expr& a, const Expr& b) {
  if (b.terms().empty()) return std::nullopt;
  if (a == b) return Expr(1);
  // Polynomial long division by the last (highest) term of b.
  Expr rest = a, quotient(0);
  const Term& lead = b.terms().back();
  for (int guard = 0; guard < 64 && !rest.terms().empty(); ++guard) {
    auto q = DivideTerm(rest.terms().back(), lead);
    if (!q) return std::nullopt;
    Expr step = Expr::FromTerms({*q});
    quotient += step;
    rest = rest - step * b;
  }
  if (!rest.terms().empty()) return std::nullopt;
  return quotient;
}

namespace {

// Whether no term of sizes leaves 62 bits where each of them is at its minimum.
bool StaysInRange(const Expr& e) {
  constexpr double kMost = static_cast<double>(int64_t{1} << 62);
  double sum = 0;
  for (const Term& term : e.terms()) {
    double product = std::abs(static_cast<double>(term.coefficient));
    for (const AtomPtr& atom : term.atoms) {
      product *= 1 + std::abs(static_cast<double>(atom->min));
    }
    sum += product;
  }
  return sum < kMost;
}

bool LeastIsNonNegative(const Expr& e) {
  std::optional<Expr> least = Extreme(e, /*want_least=*/true);
  if (!least || !StaysInRange(*least)) return false;
  // Only sizes are left. With s = t + min and t >= 0, non-negative coefficients are enough.
  Substitution shift;
  ForEachSymbol(*least, [&](const Atom& atom) {
    shift.emplace(SymbolKey{AtomKind::kSize, atom.id},
                  Expr::Size(atom.id, 0, Sum(atom.hint, -atom.min)) + atom.min);
  });
  if (!shift.empty()) *least = Substitute(*least, shift);
  return std::all_of(least->terms().begin(), least->terms().end(),
                     [](const Term& term) { return term.coefficient >= 0; });
}

}  // namespace

bool ProvablyNonNegative(const Expr& e) {
  bool all_small = true;
  for (const Term& term : e.terms()) {
    if (term.coefficient < 0) all_small = false;
    for (const AtomPtr& atom : term.atoms) {
      if (atom->kind == AtomKind::kSize && atom->min < 0) all_small = false;
      if (atom->kind == AtomKind::kFloorDiv || atom->kind == AtomKind::kMin ||
          atom->kind == AtomKind::kMax || atom->kind == AtomKind::kMod) {
        if (!LowerBoundIsZero(*atom)) return false;
      }
    }
  }
  if (all_small) return true;
  return Remembered::OfThread().Proof(e, [&] { return LeastIsNonNegative(e); });
}

namespace {

constexpr int64_t kLargeLeast = 1 << 20;

// A number that `e` is no less than, by the least values of its symbols; nothing where a term may
// take any amount away. Of what is large only that it is.
std::optional<int64_t> LeastOf(const Expr& e);

std::optional<int64_t> LeastOf(const Atom& atom) {
  const auto of = [&](int i) { return LeastOf(atom.args[i]); };
  switch (atom.kind) {
    case AtomKind::kSize:
      return std::min<int64_t>(atom.min, kLargeLeast);
    case AtomKind::kFloorDiv: {
      const auto dividend = of(0), divisor = atom.args[1].AsConstant();
      if (!dividend || !divisor || *divisor <= 0) break;
      return *dividend >= 0 ? *dividend / *divisor : -((-*dividend - 1) / *divisor + 1);
    }
    case AtomKind::kMax: {
      const auto a = of(0), b = of(1);
      return a && b ? std::max(*a, *b) : a ? a : b;
    }
    case AtomKind::kMin: {
      const auto a = of(0), b = of(1);
      if (a && b) return std::min(*a, *b);
      break;
    }
    default:
      break;
  }
  return LowerBoundIsZero(atom) ? std::optional<int64_t>(0) : std::nullopt;
}

std::optional<int64_t> LeastOf(const Expr& e) {
  int64_t sum = 0;
  for (const Term& term : e.terms()) {
    int64_t product = std::clamp(term.coefficient, -kLargeLeast, kLargeLeast);
    if (term.coefficient < -kLargeLeast || (product < 0 && !term.atoms.empty()))
      return std::nullopt;
    for (const AtomPtr& atom : term.atoms) {
      const auto least = LeastOf(*atom);
      if (!least || *least < 0) return std::nullopt;
      product = std::min(product * *least, kLargeLeast);
    }
    sum = std::min(sum + product, kLargeLeast);
  }
  return sum;
}

}  // namespace

bool ProvablyPositive(const Expr& e) {
  if (ProvablyNonNegative(e - 1)) return true;
  if (const auto least = LeastOf(e); least && *least > 0) return true;
  if (e.terms().size() != 1 || e.terms()[0].coefficient <= 0) return false;
  const auto& atoms = e.terms()[0].atoms;
  return std::all_of(atoms.begin(), atoms.end(), [](const AtomPtr& atom) {
    switch (atom->kind) {
      case AtomKind::kSize:
        return atom->min > 0;
      case AtomKind::kFloorDiv:  // at least 1 where the dividend is no less than the divisor
        return ProvablyNonNegative(atom->args[0] - atom->args[1]) &&
               ProvablyPositive(atom->args[1]);
      case AtomKind::kMin:
        return ProvablyPositive(atom->args[0]) && ProvablyPositive(atom->args[1]);
      case AtomKind::kMax:
        return ProvablyPositive(atom->args[0]) || ProvablyPositive(atom->args[1]);
      default:
        return false;
    }
  });
}

bool ProvablyLess(const Expr& a, const Expr& b) { return ProvablyNonNegative(b - a - 1); }

bool CombineQuotientAndRemainder(Terms* terms) {
  if (terms->size() < 2) return false;
  for (size_t i = 0; i < terms->size(); ++i) {
    for (size_t k = 0; k < (*terms)[i].atoms.size(); ++k) {
      const AtomPtr mod = (*terms)[i].atoms[k];
      if (mod->kind != AtomKind::kMod || mod->args[1].terms().size() != 1) continue;
      Term factor = (*terms)[i];
      factor.atoms.erase(factor.atoms.begin() + static_cast<int64_t>(k));
      // Dividing may prove much that has quotients itself: only where a term may complete it.
      const Term& by = mod->args[1].terms()[0];
      const bool may_complete = std::ranges::any_of(*terms, [&](const Term& term) {
        return term.coefficient == Times(factor.coefficient, by.coefficient) &&
               term.atoms.size() == factor.atoms.size() + by.atoms.size() + 1;
      });
      if (!may_complete) continue;
      const Expr quotient = FloorDiv(mod->args[0], mod->args[1]);
      if (quotient.AsAtom() == nullptr) continue;
      // The term that would complete it: factor * b * (a / b).
      const Expr wanted = Expr::FromTerms({factor}) * mod->args[1] * quotient;
      if (wanted.terms().size() != 1) continue;
      for (size_t j = 0; j < terms->size(); ++j) {
        if (i == j || Expr::Compare(Expr::FromTerms({(*terms)[j]}), wanted) != 0) continue;
        const Expr whole = Expr::FromTerms({factor}) * mod->args[0];
        terms->erase(terms->begin() + static_cast<int64_t>(std::max(i, j)));
        terms->erase(terms->begin() + static_cast<int64_t>(std::min(i, j)));
        terms->insert(terms->end(), whole.terms().begin(), whole.terms().end());
        return true;
      }
    }
  }
  return false;
}

namespace {

// Of a dividend and a divisor of which not both are constant.
Expr Divide(const Expr& a, const Expr& b) {
  Expr multiple, rest;
  SplitMultiple(a, b, &multiple, &rest);
  if (rest.Is(0)) return multiple;
  if (ProvablyNonNegative(rest) && ProvablyLess(rest, b)) return multiple;
  if (b.IsConstant() && *b.AsConstant() > 0) {
    // (g*q + r) // (g*c) with 0 <= r < g is q // c.
    // Only common factors of d and a coefficient can divide out.
    const int64_t d = *b.AsConstant();
    std::set<int64_t, std::greater<>> factors;
    for (const Term& term : rest.terms()) factors.insert(std::gcd(std::abs(term.coefficient), d));
    for (const int64_t g : factors) {
      if (g <= 1 || g == d) continue;
      Expr q, r;
      SplitMultiple(rest, Expr(g), &q, &r);
      if (q.Is(0)) continue;
      if (r.Is(0) || (ProvablyNonNegative(r) && ProvablyLess(r, Expr(g)))) {
        return multiple + FloorDiv(q, Expr(d / g));
      }
    }
    // (x // m) // n is x // (m*n).
    if (const Atom* atom = rest.AsAtom(); atom != nullptr && atom->kind == AtomKind::kFloorDiv &&
                                          ProvablyNonNegative(atom->args[1])) {
      return multiple + FloorDiv(atom->args[0], atom->args[1] * b);
    }
  }
  return multiple + MakeAtom(AtomKind::kFloorDiv, {rest, b});
}

}  // namespace

Expr FloorDiv(const Expr& a, const Expr& b) {
  if (b.Is(1) || a.Is(0)) return a;
  if (a.IsConstant() && b.IsConstant()) return Expr(FloorDivInt(*a.AsConstant(), *b.AsConstant()));
  return Remembered::OfThread().Quotient(a, b, [&] { return Divide(a, b); });
}

Expr Mod(const Expr& a, const Expr& b) {
  if (b.Is(1)) return Expr(0);
  if (a.IsConstant() && b.IsConstant()) {
    return Expr(RemainderInt(*a.AsConstant(), *b.AsConstant()));
  }
  Expr multiple, rest;
  SplitMultiple(a, b, &multiple, &rest);
  if (rest.Is(0)) return Expr(0);
  if (ProvablyNonNegative(rest) && ProvablyLess(rest, b)) return rest;
  if (b.IsConstant()) {
    // (g*q) % (g*c) is g * (q % c).
    const int64_t g = std::gcd(Content(rest), *b.AsConstant());
    if (g > 1) return Mod(ScaleDown(rest, g), Expr(*b.AsConstant() / g)) * g;
  }
  return MakeAtom(AtomKind::kMod, {rest, b});
}

Expr Min(const Expr& a, const Expr& b) {
  if (a == b || ProvablyNonNegative(b - a)) return a;
  if (ProvablyNonNegative(a - b)) return b;
  return a < b ? MakeAtom(AtomKind::kMin, {a, b}) : MakeAtom(AtomKind::kMin, {b, a});
}

Expr Max(const Expr& a, const Expr& b) {
  if (a == b || ProvablyNonNegative(a - b)) return a;
  if (ProvablyNonNegative(b - a)) return b;
  return a < b ? MakeAtom(AtomKind::kMax, {a, b}) : MakeAtom(AtomKind::kMax, {b, a});
}

}  // namespace tensord::sym
