// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "compiler/sym/atoms.h"
#include "compiler/sym/expr.h"

namespace tensord::sym {
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
    const bool negative = term.coefficient < 0;
    // Of the least integer too, whose negative is none.
    const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(term.coefficient)
                                        : static_cast<uint64_t>(term.coefficient);
    if (!text.empty()) {
      text += negative ? " - " : " + ";
    } else if (negative) {
      text += "-";
    }
    for (const AtomPtr& atom : term.atoms) {
      if (!product.empty()) product += " * ";
      product += AtomToCpp(*atom, name_of);
    }
    if (term.atoms.empty()) {
      absl::StrAppend(&text, magnitude);
    } else if (magnitude == 1) {
      text += product;
    } else {
      absl::StrAppend(&text, product, " * ", magnitude);
    }
  }
  return text;
}

std::string SymbolName(const Atom& symbol) {
  switch (symbol.kind) {
    case AtomKind::kSize:
      return absl::StrCat("s", symbol.id);
    case AtomKind::kLoop:
      return absl::StrCat("i", symbol.id);
    default:
      return absl::StrCat("x", symbol.id);
  }
}

std::string ToString(const Expr& e) { return ToCpp(e, SymbolName); }

std::string ToString(const std::vector<Expr>& list) {
  const auto append = [](std::string* out, const Expr& e) { out->append(ToString(e)); };
  return absl::StrCat("[", absl::StrJoin(list, ", ", append), "]");
}

}  // namespace tensord::sym
