// SPDX-License-Identifier: Apache-2.0
#include "compiler/sym/expr_proto.h"

#include "base/check.h"

namespace tensord::sym {
namespace {

v1::SymOp::Kind KindOf(AtomKind kind) {
  switch (kind) {
    case AtomKind::kFloorDiv:
      return v1::SymOp::FLOOR_DIV;
    case AtomKind::kMod:
      return v1::SymOp::MOD;
    case AtomKind::kMin:
      return v1::SymOp::MIN;
    case AtomKind::kMax:
      return v1::SymOp::MAX;
    default:
      break;
  }
  TENSORD_CHECK(false, "only sizes leave the compiler");
  return v1::SymOp::KIND_UNSPECIFIED;
}

void AtomToProto(const Atom& atom, v1::SymExpr* proto) {
  if (atom.kind == AtomKind::kSize) {
    proto->set_symbol(static_cast<uint32_t>(atom.id));
    return;
  }
  proto->mutable_op()->set_kind(KindOf(atom.kind));
  for (const Expr& arg : atom.args) ToProto(arg, proto->mutable_op()->add_args());
}

void TermToProto(const Term& term, v1::SymExpr* proto) {
  if (term.atoms.empty()) {
    proto->set_constant(term.coefficient);
  } else if (term.atoms.size() == 1 && term.coefficient == 1) {
    AtomToProto(*term.atoms[0], proto);
  } else {
    v1::SymOp* product = proto->mutable_op();
    product->set_kind(v1::SymOp::MUL);
    if (term.coefficient != 1) product->add_args()->set_constant(term.coefficient);
    for (const AtomPtr& atom : term.atoms) AtomToProto(*atom, product->add_args());
  }
}

}  // namespace

void ToProto(const Expr& e, v1::SymExpr* proto) {
  if (e.terms().empty()) {
    proto->set_constant(0);
  } else if (e.terms().size() == 1) {
    TermToProto(e.terms()[0], proto);
  } else {
    proto->mutable_op()->set_kind(v1::SymOp::ADD);
    for (const Term& term : e.terms()) TermToProto(term, proto->mutable_op()->add_args());
  }
}

}  // namespace tensord::sym
