// SPDX-License-Identifier: Apache-2.0
// Expressions of BodyLowering: scalars, and vectors of what varies along the vector loop.
#include <algorithm>

#include "compiler/codegen/body.h"

namespace tensord::compiler {

int BodyLowering::LevelOf(const Expr& e) {
  int level = 0;
  const int outer = static_cast<int>(nest_.outer.size());
  sym::ForEachSymbol(e, [&](const sym::Atom& atom) {
    if (atom.kind == sym::AtomKind::kLoop) {
      level = std::max(level, atom.id < outer ? 0 : atom.id - outer + 1);
    } else if (atom.kind == sym::AtomKind::kIndirect) {
      level = std::max(level, Indirect(atom.id).level);
    }
  });
  return level;
}

const Lowered& BodyLowering::Indirect(int symbol) {
  const auto known = indirect_.find({member_, symbol});
  if (known != indirect_.end()) return known->second;
  const std::vector<Inst>& insts = member_->loops.block.insts;
  for (size_t i = 0; i < insts.size(); ++i) {
    if (insts[i].kind == InstKind::kIndirect && insts[i].symbol == symbol) {
      Lower(static_cast<int>(i));
    }
  }
  return indirect_.at({member_, symbol});
}

ir::Value BodyLowering::Scalar(const Expr& e) {
  std::map<sym::SymbolKey, ir::Value> symbols;
  sym::ForEachSymbol(e, [&](const sym::Atom& atom) {
    ir::Value& value = symbols[{atom.kind, atom.id}];
    switch (atom.kind) {
      case sym::AtomKind::kLoop:
        value = LoopVar(atom.id);
        break;
      case sym::AtomKind::kIndirect:
        value = ir::CallOf("get", {Use(Indirect(atom.id), 0), 0});
        break;
      default:
        value = Argument(Expr::Size(atom.id, atom.min, atom.hint));
    }
  });
  return ir::Index(e, std::move(symbols));
}

ir::Value BodyLowering::Extent(const Expr& extent) {
  if (auto constant = extent.AsConstant()) return ir::Value(*constant);
  return Argument(extent);
}

ir::Value BodyLowering::Argument(const Expr& value) {
  const int position = interface_->Integer(value);
  used_integers_.insert(position);
  return KernelInterface::IntegerNamed(position);
}

ir::Value BodyLowering::VectorAtom(const sym::Atom& atom) {
  const ir::Type type = ir::ScalarType(kInt64);
  switch (atom.kind) {
    case sym::AtomKind::kLoop: {
      const ir::Value loop = LoopVar(atom.id), step = LaneStep();
      return Define(vector_level(), step ? ir::CallOf("iota_by", {type, Width()}, {loop, step})
                                         : ir::CallOf("iota", {type, Width()}, {loop}));
    }
    case sym::AtomKind::kIndirect:
      return Indirect(atom.id).value;
    default:
      break;
  }
  const char* const function = atom.kind == sym::AtomKind::kFloorDiv ? "floor_div"
                               : atom.kind == sym::AtomKind::kMod    ? "mod"
                               : atom.kind == sym::AtomKind::kMin    ? "minimum"
                                                                     : "maximum";
  const ir::Value b = Vector(atom.args[1]);
  const ir::Value a = Vector(atom.args[0]);
  return ir::CallOf(function, {a, b});
}

ir::Value BodyLowering::Vector(const Expr& e) {
  sym::Terms uniform;
  const auto broadcast = [&](const Expr& scalar) {
    return ir::CallOf("broadcast", {Width()}, {ir::ConvertTo(ir::kInt64Type, Scalar(scalar))});
  };
  ir::Value sum;
  for (const sym::Term& term : e.terms()) {
    sym::Term scalar{term.coefficient, {}};
    ir::Value product;
    for (const sym::AtomPtr& atom : term.atoms) {
      if (LevelOf(Expr::FromAtom(atom)) < vector_level()) {
        scalar.atoms.push_back(atom);
        continue;
      }
      const ir::Value factor = VectorAtom(*atom);
      product = product ? ir::CallOf("mul", {product, factor}) : factor;
    }
    if (!product) {
      uniform.push_back(term);
      continue;
    }
    const Expr factor = Expr::FromTerms({scalar});
    if (!factor.Is(1)) product = ir::CallOf("mul", {product, broadcast(factor)});
    sum = sum ? ir::CallOf("add", {sum, product}) : product;
  }
  const Expr rest = Expr::FromTerms(uniform);
  if (!sum) return broadcast(rest);
  if (!rest.Is(0)) sum = ir::CallOf("add", {sum, broadcast(rest)});
  return Define(vector_level(), sum);
}

ir::Value BodyLowering::InnerPosition() {
  Expr position(0), stride(1);
  for (int q = vector_level() - 1; q >= 0; --q) {
    position += Expr::Loop(static_cast<int>(nest_.outer.size()) + q, nest_.inner[q]) * stride;
    stride *= nest_.inner[q];
  }
  return Scalar(position);
}

ir::Value BodyLowering::Step(const Expr& stride) {
  const ir::Value step = Scalar(stride), lanes = LaneStep();
  return lanes ? step * lanes : step;
}

std::optional<Expr> BodyLowering::VectorStride(const Expr& index) {
  bool indirect = false;
  sym::ForEachSymbol(index, [&](const sym::Atom& atom) {
    if (atom.kind == sym::AtomKind::kIndirect) {
      indirect |= Indirect(atom.id).level == vector_level();
    }
  });
  if (indirect) return std::nullopt;
  std::optional<Expr> stride = sym::LinearCoefficient(index, VectorLoop());
  if (stride && stride->Is(0)) stride.reset();
  return stride;
}

}  // namespace tensord::compiler
