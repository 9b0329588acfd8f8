#include "compiler/sym/expr.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "base/check.h"

namespace tensord::sym {
namespace {

bool IsSymbol(AtomKind kind) {
  return kind == AtomKind::kSize || kind == AtomKind::kLoop || kind == AtomKind::kIndirect;
}

int CompareAtoms(const std::vector<AtomPtr>& a, const std::vector<AtomPtr>& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (int c = Compare(*a[i], *b[i]); c != 0) return c;
  }
  return 0;
}

bool TermLess(const Term& a, const Term& b) { return CompareAtoms(a.atoms, b.atoms) < 0; }

// Sorts, adds equal monomials, drops zeros.
void Canonicalize(std::vector<Term>& terms) {
  std::stable_sort(terms.begin(), terms.end(), TermLess);
  size_t out = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (out > 0 && CompareAtoms(terms[out - 1].atoms, terms[i].atoms) == 0) {
      terms[out - 1].coefficient += terms[i].coefficient;
    } else {
      if (out > 0 && terms[out - 1].coefficient == 0) --out;
      if (out != i) terms[out] = std::move(terms[i]);
      ++out;
    }
  }
  if (out > 0 && terms[out - 1].coefficient == 0) --out;
  terms.resize(out);
}

Term Multiply(const Term& a, const Term& b) {
  Term product{a.coefficient * b.coefficient, a.atoms};
  product.atoms.insert(product.atoms.end(), b.atoms.begin(), b.atoms.end());
  std::sort(product.atoms.begin(), product.atoms.end(),
            [](const AtomPtr& x, const AtomPtr& y) { return Compare(*x, *y) < 0; });
  return product;
}

// a / b for monomials, if exact.
std::optional<Term> DivideTerm(const Term& a, const Term& b) {
  if (b.coefficient == 0 || a.coefficient % b.coefficient != 0) return std::nullopt;
  Term quotient{a.coefficient / b.coefficient, a.atoms};
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

int64_t FloorDivInt(int64_t a, int64_t b) {
  if (b == 0) return 0;
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
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

// Replaces every loop-like atom by the end of its range that makes `e` least (want_least) or greatest.
// Nothing when a sign is not known.
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
    std::vector<Term> with, rest;
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
    std::vector<Term> quotient, remainder;
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
  std::vector<Term> terms = e.terms();
  for (Term& term : terms) term.coefficient /= by;
  return Expr::FromTerms(std::move(terms));
}

}  // namespace

int Compare(const Atom& a, const Atom& b) {
  if (&a == &b) return 0;
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  if (a.id != b.id) return a.id < b.id ? -1 : 1;
  if (IsSymbol(a.kind)) return 0;
  if (a.args.size() != b.args.size()) return a.args.size() < b.args.size() ? -1 : 1;
  for (size_t i = 0; i < a.args.size(); ++i) {
    if (int c = Expr::Compare(a.args[i], b.args[i]); c != 0) return c;
  }
  return 0;
}

Expr::Expr(int64_t constant) {
  static const auto zero = std::make_shared<const std::vector<Term>>();
  terms_ = constant == 0 ? zero
                         : std::make_shared<const std::vector<Term>>(
                               std::vector<Term>{Term{constant, {}}});
}

Expr Expr::FromTerms(std::vector<Term> terms) {
  Canonicalize(terms);
  Expr e;
  e.terms_ = std::make_shared<const std::vector<Term>>(std::move(terms));
  return e;
}

Expr Expr::FromAtom(AtomPtr atom) { return FromTerms({Term{1, {std::move(atom)}}}); }

Expr Expr::Size(int id, int64_t min, int64_t hint) {
  auto atom = std::make_shared<Atom>();
  atom->kind = AtomKind::kSize;
  atom->id = id;
  atom->min = min;
  atom->hint = hint;
  return FromAtom(std::move(atom));
}

Expr Expr::Loop(int id, const Expr& extent) {
  if (extent.Is(1)) return Expr(0);
  auto atom = std::make_shared<Atom>();
  atom->kind = AtomKind::kLoop;
  atom->id = id;
  atom->args = {extent};
  return FromAtom(std::move(atom));
}

Expr Expr::Indirect(int id, const Expr& extent) {
  auto atom = std::make_shared<Atom>();
  atom->kind = AtomKind::kIndirect;
  atom->id = id;
  atom->args = {extent};
  return FromAtom(std::move(atom));
}

bool Expr::IsConstant() const {
  return terms_->empty() || (terms_->size() == 1 && (*terms_)[0].atoms.empty());
}

std::optional<int64_t> Expr::AsConstant() const {
  if (terms_->empty()) return 0;
  if (!IsConstant()) return std::nullopt;
  return (*terms_)[0].coefficient;
}

const Atom* Expr::AsAtom() const {
  if (terms_->size() != 1) return nullptr;
  const Term& term = (*terms_)[0];
  return term.coefficient == 1 && term.atoms.size() == 1 ? term.atoms[0].get() : nullptr;
}

int Expr::Compare(const Expr& a, const Expr& b) {
  if (a.terms_ == b.terms_) return 0;
  const auto &x = a.terms(), &y = b.terms();
  if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
  for (size_t i = 0; i < x.size(); ++i) {
    if (int c = CompareAtoms(x[i].atoms, y[i].atoms); c != 0) return c;
    if (x[i].coefficient != y[i].coefficient) return x[i].coefficient < y[i].coefficient ? -1 : 1;
  }
  return 0;
}

Expr operator+(const Expr& a, const Expr& b) {
  if (a.terms().empty()) return b;
  if (b.terms().empty()) return a;
  std::vector<Term> terms = a.terms();
  terms.insert(terms.end(), b.terms().begin(), b.terms().end());
  return Expr::FromTerms(std::move(terms));
}

Expr Expr::operator-() const {
  std::vector<Term> terms = *terms_;
  for (Term& term : terms) term.coefficient = -term.coefficient;
  return FromTerms(std::move(terms));
}

Expr operator-(const Expr& a, const Expr& b) { return a + (-b); }

Expr operator*(const Expr& a, const Expr& b) {
  if (a.Is(1)) return b;
  if (b.Is(1)) return a;
  std::vector<Term> terms;
  terms.reserve(a.terms().size() * b.terms().size());
  for (const Term& x : a.terms()) {
    for (const Term& y : b.terms()) terms.push_back(Multiply(x, y));
  }
  return Expr::FromTerms(std::move(terms));
}

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

bool ProvablyNonNegative(const Expr& e) {
  bool all_small = true;
  for (const Term& term : e.terms()) {
    if (term.coefficient < 0) all_small = false;
    for (const AtomPtr& atom : term.atoms) {
      if (atom->kind == AtomKind::kFloorDiv || atom->kind == AtomKind::kMin ||
          atom->kind == AtomKind::kMax || atom->kind == AtomKind::kMod) {
        if (!LowerBoundIsZero(*atom)) return false;
      }
    }
  }
  if (all_small) return true;
  std::optional<Expr> least = Extreme(e, /*want_least=*/true);
  if (!least) return false;
  // Only sizes are left. With s = t + min and t >= 0, non-negative coefficients are enough.
  Substitution shift;
  ForEachSymbol(*least, [&](const Atom& atom) {
    shift.emplace(SymbolKey{AtomKind::kSize, atom.id},
                  Expr::Size(atom.id, 0, atom.hint - atom.min) + atom.min);
  });
  if (!shift.empty()) *least = Substitute(*least, shift);
  return std::all_of(least->terms().begin(), least->terms().end(),
                     [](const Term& term) { return term.coefficient >= 0; });
}

bool ProvablyLess(const Expr& a, const Expr& b) { return ProvablyNonNegative(b - a - 1); }

Expr FloorDiv(const Expr& a, const Expr& b) {
  if (b.Is(1) || a.Is(0)) return a;
  if (a.IsConstant() && b.IsConstant()) return Expr(FloorDivInt(*a.AsConstant(), *b.AsConstant()));
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

Expr Mod(const Expr& a, const Expr& b) {
  if (b.Is(1)) return Expr(0);
  if (a.IsConstant() && b.IsConstant()) {
    return Expr(*a.AsConstant() - FloorDivInt(*a.AsConstant(), *b.AsConstant()) * *b.AsConstant());
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

Expr CeilDiv(const Expr& a, const Expr& b) { return FloorDiv(a + b - 1, b); }

Expr Product(const std::vector<Expr>& factors) {
  Expr product(1);
  for (const Expr& factor : factors) product *= factor;
  return product;
}

Expr Substitute(const Expr& e, const Substitution& with) {
  bool touched = false;
  ForEachSymbol(e, [&](const Atom& atom) { touched |= with.count({atom.kind, atom.id}) != 0; });
  if (!touched) return e;
  Expr sum(0);
  for (const Term& term : e.terms()) {
    Expr product(term.coefficient);
    for (const AtomPtr& atom : term.atoms) {
      if (IsSymbol(atom->kind)) {
        auto it = with.find({atom->kind, atom->id});
        product *= it == with.end() ? Expr::FromAtom(atom) : it->second;
        continue;
      }
      const Expr a = Substitute(atom->args[0], with), b = Substitute(atom->args[1], with);
      switch (atom->kind) {
        case AtomKind::kFloorDiv: product *= FloorDiv(a, b); break;
        case AtomKind::kMod: product *= Mod(a, b); break;
        case AtomKind::kMin: product *= Min(a, b); break;
        default: product *= Max(a, b); break;
      }
    }
    sum += product;
  }
  return sum;
}

void ForEachSymbol(const Expr& e, const std::function<void(const Atom&)>& visit) {
  for (const Term& term : e.terms()) {
    for (const AtomPtr& atom : term.atoms) {
      if (IsSymbol(atom->kind)) {
        visit(*atom);
      } else {
        for (const Expr& arg : atom->args) ForEachSymbol(arg, visit);
      }
    }
  }
}

bool Contains(const Expr& e, SymbolKey symbol) {
  bool found = false;
  ForEachSymbol(e, [&](const Atom& atom) {
    found |= atom.kind == symbol.first && atom.id == symbol.second;
  });
  return found;
}

bool ContainsKind(const Expr& e, AtomKind kind) {
  bool found = false;
  ForEachSymbol(e, [&](const Atom& atom) { found |= atom.kind == kind; });
  return found;
}

std::optional<Expr> LinearCoefficient(const Expr& e, SymbolKey symbol) {
  std::vector<Term> cofactors;
  for (const Term& term : e.terms()) {
    Term cofactor{term.coefficient, {}};
    int degree = 0;
    for (const AtomPtr& atom : term.atoms) {
      if (atom->kind == symbol.first && atom->id == symbol.second) {
        ++degree;
      } else if (!IsSymbol(atom->kind) && Contains(Expr::FromAtom(atom), symbol)) {
        return std::nullopt;
      } else {
        cofactor.atoms.push_back(atom);
      }
    }
    if (degree > 1) return std::nullopt;
    if (degree == 1) cofactors.push_back(std::move(cofactor));
  }
  return Expr::FromTerms(std::move(cofactors));
}

int64_t Evaluate(const Expr& e, const std::function<int64_t(const Atom&)>& value_of) {
  int64_t sum = 0;
  for (const Term& term : e.terms()) {
    int64_t product = term.coefficient;
    for (const AtomPtr& atom : term.atoms) {
      if (IsSymbol(atom->kind)) {
        product *= value_of(*atom);
        continue;
      }
      const int64_t a = Evaluate(atom->args[0], value_of), b = Evaluate(atom->args[1], value_of);
      switch (atom->kind) {
        case AtomKind::kFloorDiv: product *= FloorDivInt(a, b); break;
        case AtomKind::kMod: product *= a - FloorDivInt(a, b) * b; break;
        case AtomKind::kMin: product *= std::min(a, b); break;
        default: product *= std::max(a, b); break;
      }
    }
    sum += product;
  }
  return sum;
}

int64_t Hint(const Expr& e) {
  return Evaluate(e, [](const Atom& atom) { return atom.kind == AtomKind::kSize ? atom.hint : 0; });
}

namespace {

std::string AtomToCpp(const Atom& atom, const std::function<std::string(const Atom&)>& name_of) {
  if (IsSymbol(atom.kind)) return name_of(atom);
  const std::string a = ToCpp(atom.args[0], name_of), b = ToCpp(atom.args[1], name_of);
  switch (atom.kind) {
    case AtomKind::kFloorDiv:
      return ProvablyNonNegative(atom.args[0]) && ProvablyNonNegative(atom.args[1])
                 ? absl::StrCat("((", a, ") / (", b, "))")
                 : absl::StrCat("tk::floor_div_index(", a, ", ", b, ")");
    case AtomKind::kMod:
      return ProvablyNonNegative(atom.args[0]) && ProvablyNonNegative(atom.args[1])
                 ? absl::StrCat("((", a, ") % (", b, "))")
                 : absl::StrCat("tk::mod_index(", a, ", ", b, ")");
    case AtomKind::kMin:
      return absl::StrCat("tk::min_index(", a, ", ", b, ")");
    default:
      return absl::StrCat("tk::max_index(", a, ", ", b, ")");
  }
}

}  // namespace

std::string ToCpp(const Expr& e, const std::function<std::string(const Atom&)>& name_of) {
  if (e.terms().empty()) return "0";
  std::string text;
  for (const Term& term : e.terms()) {
    std::string product;
    int64_t coefficient = term.coefficient;
    const bool negative = coefficient < 0;
    if (!text.empty()) {
      text += negative ? " - " : " + ";
      coefficient = std::abs(coefficient);
    } else if (negative) {
      text += "-";
      coefficient = -coefficient;
    }
    for (const AtomPtr& atom : term.atoms) {
      if (!product.empty()) product += " * ";
      product += AtomToCpp(*atom, name_of);
    }
    if (term.atoms.empty()) {
      text += absl::StrCat(coefficient);
    } else if (coefficient == 1) {
      text += product;
    } else {
      absl::StrAppend(&text, product, " * ", coefficient);
    }
  }
  return text;
}

std::string SymbolName(const Atom& symbol) {
  switch (symbol.kind) {
    case AtomKind::kSize: return absl::StrCat("s", symbol.id);
    case AtomKind::kLoop: return absl::StrCat("i", symbol.id);
    default: return absl::StrCat("x", symbol.id);
  }
}

std::string ToString(const Expr& e) { return ToCpp(e, SymbolName); }

}  // namespace tensord::sym
