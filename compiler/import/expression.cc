// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/expression.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>

#include "compiler/import/import.h"

namespace tensord::compiler {
namespace {

using sym::Expr;

// Values beyond this are refused, so that sums and products of checked parts cannot overflow.
constexpr double kMaxMagnitude = 4.6e18;  // just below 2^62
constexpr size_t kMaxDegree = 16;

// An expression with upper bounds on the numbers that meet in it: `magnitude` of its value at the
// hints (as a sum of absolute terms), `norm` of its coefficients (likewise). Both are subadditive
// and submultiplicative, so checking them at every step rules out overflow inside sym.
struct Bounded {
  Expr expr;
  double magnitude = 0;
  double norm = 0;
};

class Converter {
 public:
  explicit Converter(const std::vector<Expr>& symbols) : symbols_(symbols) {}

  absl::StatusOr<Bounded> Convert(const v1::SymExpr& from, int depth) {
    if (depth > kMaxExprDepth) return Error("is nested too deeply");
    if (++nodes_ > kMaxExprNodes) return Error("has too many parts");
    switch (from.kind_case()) {
      case v1::SymExpr::kConstant: {
        const double size = std::abs(static_cast<double>(from.constant()));
        if (size > kMaxMagnitude) return Error("is too large");
        return Bounded{Expr(static_cast<int64_t>(from.constant())), size, size};
      }
      case v1::SymExpr::kSymbol: {
        if (from.symbol() >= symbols_.size()) {
          return Error(absl::StrCat("names symbol ", from.symbol(), " of ", symbols_.size()));
        }
        const Expr& symbol = symbols_[from.symbol()];
        return Bounded{symbol, std::abs(static_cast<double>(sym::Hint(symbol))), 1};
      }
      case v1::SymExpr::kOp:
        return ConvertOp(from.op(), depth);
      case v1::SymExpr::KIND_NOT_SET:
        return Error("is empty");
    }
    return Error("is empty");
  }

 private:
  static absl::Status Error(absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("expression ", what));
  }

  absl::StatusOr<Bounded> ConvertOp(const v1::SymOp& op, int depth) {
    const bool division = op.kind() == v1::SymOp::FLOOR_DIV || op.kind() == v1::SymOp::MOD;
    if (op.args().empty() || (division && op.args_size() != 2)) {
      return Error("has the wrong number of operands");
    }
    TENSORD_ASSIGN_OR_RETURN(Bounded total, Convert(op.args(0), depth + 1));
    for (int i = 1; i < op.args_size(); ++i) {
      TENSORD_ASSIGN_OR_RETURN(Bounded arg, Convert(op.args(i), depth + 1));
      TENSORD_RETURN_IF_ERROR(Combine(op.kind(), total, arg));
      if (total.magnitude > kMaxMagnitude || total.norm > kMaxMagnitude) {
        return Error("is too large");
      }
    }
    return total;
  }

  // total = total <op> arg.
  static absl::Status Combine(v1::SymOp::Kind kind, Bounded& total, const Bounded& arg) {
    const auto bounds_of = [&](double magnitude, double norm) {
      total.magnitude = magnitude;
      total.norm = norm;
      return magnitude <= kMaxMagnitude && norm <= kMaxMagnitude;
    };
    switch (kind) {
      case v1::SymOp::ADD:
        if (!bounds_of(total.magnitude + arg.magnitude, total.norm + arg.norm)) break;
        if (total.expr.terms().size() + arg.expr.terms().size() > kMaxExprTerms) break;
        total.expr += arg.expr;
        return absl::OkStatus();
      case v1::SymOp::MUL:
        if (!bounds_of(total.magnitude * arg.magnitude, total.norm * arg.norm)) break;
        if (total.expr.terms().size() * arg.expr.terms().size() > kMaxExprTerms) break;
        if (Degree(total.expr) + Degree(arg.expr) > kMaxDegree) break;
        total.expr *= arg.expr;
        return absl::OkStatus();
      case v1::SymOp::FLOOR_DIV:
      case v1::SymOp::MOD:
        if (!sym::ProvablyPositive(arg.expr)) {
          return Error("divides by what is not always positive");
        }
        // The quotient and the remainder are written with the dividend's and the divisor's terms.
        if (!bounds_of(total.magnitude + arg.magnitude, total.norm + arg.norm)) break;
        total.expr = kind == v1::SymOp::MOD ? sym::Mod(total.expr, arg.expr)
                                            : sym::FloorDiv(total.expr, arg.expr);
        return absl::OkStatus();
      case v1::SymOp::MIN:
      case v1::SymOp::MAX:
        if (!bounds_of(total.magnitude + arg.magnitude, total.norm + arg.norm)) break;
        total.expr = kind == v1::SymOp::MIN ? sym::Min(total.expr, arg.expr)
                                            : sym::Max(total.expr, arg.expr);
        return absl::OkStatus();
      default:
        return Error("has an unknown operation");
    }
    return Error("is too large");
  }

  static size_t Degree(const Expr& e) {
    size_t degree = 0;
    for (const sym::Term& term : e.terms()) degree = std::max(degree, term.atoms.size());
    return degree;
  }

  const std::vector<Expr>& symbols_;
  int nodes_ = 0;
};

class DefinitionChecker {
 public:
  explicit DefinitionChecker(const std::vector<Expr>& symbols) : symbols_(symbols) {}

  absl::Status Check(const v1::RealExpr& real, int depth) {
    if (depth > kMaxExprDepth) return Error("is nested too deeply");
    if (++nodes_ > kMaxExprNodes) return Error("has too many parts");
    switch (real.kind_case()) {
      case v1::RealExpr::kConstant:
        return std::isfinite(real.constant()) ? absl::OkStatus()
                                              : Error("has a constant that is not finite");
      case v1::RealExpr::kInteger:
        return ImportExpr(real.integer(), symbols_).status();
      case v1::RealExpr::kOp:
        break;
      case v1::RealExpr::KIND_NOT_SET:
        return Error("is empty");
    }
    const int arity = ArityOf(real.op().kind());
    if (arity < 0) return Error("has an unknown operation");
    if (real.op().args().empty() || (arity > 0 && real.op().args_size() != arity)) {
      return Error("has the wrong number of operands");
    }
    for (const v1::RealExpr& arg : real.op().args()) {
      TENSORD_RETURN_IF_ERROR(Check(arg, depth + 1));
    }
    return absl::OkStatus();
  }

  static absl::Status Error(absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("definition ", what));
  }

 private:
  // 0: any number. -1: no operation.
  static int ArityOf(v1::RealOp::Kind kind) {
    switch (kind) {
      case v1::RealOp::ADD:
      case v1::RealOp::MUL:
        return 0;
      case v1::RealOp::DIV:
      case v1::RealOp::POW:
        return 2;
      case v1::RealOp::SQRT:
        return 1;
      default:
        return -1;
    }
  }

  const std::vector<Expr>& symbols_;
  int nodes_ = 0;
};

}  // namespace

absl::Status CheckDefinition(const v1::Definition& definition, const std::vector<Expr>& symbols) {
  if (definition.rounding() < v1::Definition::TRUNC ||
      definition.rounding() > v1::Definition::NEAREST) {
    return DefinitionChecker::Error("rounds in an unknown way");
  }
  return DefinitionChecker(symbols).Check(definition.real(), 0);
}

absl::StatusOr<Expr> ImportExpr(const v1::SymExpr& from, const std::vector<Expr>& symbols) {
  TENSORD_ASSIGN_OR_RETURN(Bounded bounded, Converter(symbols).Convert(from, 0));
  return std::move(bounded.expr);
}

}  // namespace tensord::compiler
