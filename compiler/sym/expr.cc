// SPDX-License-Identifier: Apache-2.0
#include "compiler/sym/expr.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "compiler/sym/atoms.h"

namespace tensord::sym {
namespace {

int CompareAtoms(const absl::InlinedVector<AtomPtr, 1>& a,
                 const absl::InlinedVector<AtomPtr, 1>& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (int c = Compare(*a[i], *b[i]); c != 0) return c;
  }
  return 0;
}

bool TermLess(const Term& a, const Term& b) { return CompareAtoms(a.atoms, b.atoms) < 0; }

// Sorts, adds equal monomials, drops zeros.
void Canonicalize(Terms& terms) {
  if (!std::is_sorted(terms.begin(), terms.end(), TermLess)) {
    std::stable_sort(terms.begin(), terms.end(), TermLess);
  }
  size_t out = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (out > 0 && CompareAtoms(terms[out - 1].atoms, terms[i].atoms) == 0) {
      terms[out - 1].coefficient = Sum(terms[out - 1].coefficient, terms[i].coefficient);
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
  Term product{Times(a.coefficient, b.coefficient), a.atoms};
  product.atoms.insert(product.atoms.end(), b.atoms.begin(), b.atoms.end());
  std::sort(product.atoms.begin(), product.atoms.end(),
            [](const AtomPtr& x, const AtomPtr& y) { return Compare(*x, *y) < 0; });
  return product;
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
  // Most constants are small, and a large graph has millions of them.
  static const auto small = [] {
    std::array<std::shared_ptr<const Terms>, 1025> all;
    all[0] = std::make_shared<const Terms>();
    for (size_t i = 1; i < all.size(); ++i) {
      all[i] = std::make_shared<const Terms>(1, Term{static_cast<int64_t>(i), {}});
    }
    return all;
  }();
  terms_ = constant >= 0 && constant < static_cast<int64_t>(small.size())
               ? small[constant]
               : std::make_shared<const Terms>(1, Term{constant, {}});
}

Expr Expr::FromTerms(Terms terms) {
  Canonicalize(terms);
  while (CombineQuotientAndRemainder(&terms)) Canonicalize(terms);
  if (terms.empty()) return Expr(0);
  if (terms.size() == 1 && terms[0].atoms.empty()) return Expr(terms[0].coefficient);
  Expr e;
  e.terms_ = std::make_shared<const Terms>(std::move(terms));
  return e;
}

Expr Expr::FromAtom(AtomPtr atom) { return FromTerms({Term{1, {std::move(atom)}}}); }

Expr Expr::Size(int id, int64_t min, int64_t hint, bool from_data) {
  auto atom = std::make_shared<Atom>();
  atom->kind = AtomKind::kSize;
  atom->id = id;
  atom->min = min;
  atom->hint = hint;
  atom->from_data = from_data;
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
  const auto x = a.AsConstant(), y = b.AsConstant();
  if (x && y) return Expr(Sum(*x, *y));
  Terms terms;
  terms.reserve(a.terms().size() + b.terms().size());
  std::merge(a.terms().begin(), a.terms().end(), b.terms().begin(), b.terms().end(),
             std::back_inserter(terms), TermLess);
  return Expr::FromTerms(std::move(terms));
}

Expr Expr::operator-() const {
  if (const auto constant = AsConstant()) return Expr(Times(*constant, -1));
  Terms terms = *terms_;
  for (Term& term : terms) term.coefficient = Times(term.coefficient, -1);
  return FromTerms(std::move(terms));
}

Expr operator-(const Expr& a, const Expr& b) { return a + (-b); }

Expr operator*(const Expr& a, const Expr& b) {
  if (a.Is(1)) return b;
  if (b.Is(1)) return a;
  const auto x = a.AsConstant(), y = b.AsConstant();
  if (x && y) return Expr(Times(*x, *y));
  Terms terms;
  terms.reserve(a.terms().size() * b.terms().size());
  for (const Term& x : a.terms()) {
    for (const Term& y : b.terms()) terms.push_back(Multiply(x, y));
  }
  return Expr::FromTerms(std::move(terms));
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
        case AtomKind::kFloorDiv:
          product *= FloorDiv(a, b);
          break;
        case AtomKind::kMod:
          product *= Mod(a, b);
          break;
        case AtomKind::kMin:
          product *= Min(a, b);
          break;
        default:
          product *= Max(a, b);
          break;
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
  ForEachSymbol(
      e, [&](const Atom& atom) { found |= atom.kind == symbol.first && atom.id == symbol.second; });
  return found;
}

bool ContainsKind(const Expr& e, AtomKind kind) {
  bool found = false;
  ForEachSymbol(e, [&](const Atom& atom) { found |= atom.kind == kind; });
  return found;
}

std::optional<Expr> LinearCoefficient(const Expr& e, SymbolKey symbol) {
  Terms cofactors;
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
        product = Times(product, value_of(*atom));
        continue;
      }
      const int64_t a = Evaluate(atom->args[0], value_of), b = Evaluate(atom->args[1], value_of);
      switch (atom->kind) {
        case AtomKind::kFloorDiv:
          product = Times(product, FloorDivInt(a, b));
          break;
        case AtomKind::kMod:
          product = Times(product, RemainderInt(a, b));
          break;
        case AtomKind::kMin:
          product = Times(product, std::min(a, b));
          break;
        default:
          product = Times(product, std::max(a, b));
          break;
      }
    }
    sum = Sum(sum, product);
  }
  return sum;
}

int64_t Hint(const Expr& e) {
  return Evaluate(e, [](const Atom& atom) { return atom.kind == AtomKind::kSize ? atom.hint : 0; });
}

}  // namespace tensord::sym
