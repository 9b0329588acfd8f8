// SPDX-License-Identifier: Apache-2.0
#include "compiler/sym/remembered.h"

#include <absl/hash/hash.h>

#include <algorithm>

namespace tensord::sym {
namespace {

size_t HashOf(const Expr& e) {
  size_t hash = e.terms().size();
  for (const Term& term : e.terms()) {
    hash = absl::HashOf(hash, term.coefficient, term.atoms.size());
    for (const AtomPtr& atom : term.atoms) {
      hash = absl::HashOf(hash, atom->kind, atom->id, atom->min);
      for (const Expr& arg : atom->args) hash = absl::HashOf(hash, HashOf(arg));
    }
  }
  return hash;
}

bool Same(const Expr& a, const Expr& b);

bool Same(const AtomPtr& a, const AtomPtr& b) {
  if (a == b) return true;
  return a->kind == b->kind && a->id == b->id && a->min == b->min && a->hint == b->hint &&
         a->from_data == b->from_data &&
         std::ranges::equal(a->args, b->args,
                            [](const Expr& x, const Expr& y) { return Same(x, y); });
}

bool Same(const Expr& a, const Expr& b) {
  if (&a.terms() == &b.terms()) return true;
  return std::ranges::equal(a.terms(), b.terms(), [](const Term& x, const Term& y) {
    return x.coefficient == y.coefficient &&
           std::ranges::equal(x.atoms, y.atoms,
                              [](const AtomPtr& p, const AtomPtr& q) { return Same(p, q); });
  });
}

}  // namespace

size_t IdenticalExprs::operator()(const Expr& e) const { return HashOf(e); }
bool IdenticalExprs::operator()(const Expr& a, const Expr& b) const { return Same(a, b); }

Remembered& Remembered::OfThread() {
  thread_local Remembered remembered;
  return remembered;
}

void Remembered::Forget() {
  if (!proofs_.empty()) proofs_.clear();
  if (!quotients_.empty()) quotients_.clear();
}

}  // namespace tensord::sym
