// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/reductions.h"

#include <absl/strings/str_cat.h>

#include <array>

#include "base/check.h"

namespace tensord::compiler {
namespace {

// By kind; of those with a state, its prefix and fields.
struct Functions {
  ReduceKind kind;
  const char* combine;
  const char* reduce;
  const char* group;
  StateFunctions state;
};

constexpr Functions kFunctions[] = {
    {ReduceKind::kSum, "add", "reduce_sum", "group_add", {}},
    {ReduceKind::kProd, "mul", "reduce_prod", "group_mul", {}},
    {ReduceKind::kMin, "minimum", "reduce_min", "group_min", {}},
    {ReduceKind::kMax, "maximum", "reduce_max", "group_max", {}},
    {ReduceKind::kAny, "logical_or", "reduce_any", "group_any", {}},
    {ReduceKind::kAll, "logical_and", "reduce_all", "group_all", {}},
    {ReduceKind::kArgMin,
     "argmin_combine",
     "argmin_reduce",
     "group_argmin",
     {"argmin", {"index", nullptr}}},
    {ReduceKind::kArgMax,
     "argmax_combine",
     "argmax_reduce",
     "group_argmax",
     {"argmax", {"index", nullptr}}},
    {ReduceKind::kWelford,
     "welford_combine",
     "welford_reduce",
     "group_welford",
     {"welford", {"mean", "m2"}}},
    {ReduceKind::kOnlineSoftmax,
     "softmax_combine",
     "softmax_reduce",
     "group_softmax",
     {"softmax", {"max", "sum"}}},
};

const Functions& Of(ReduceKind kind) {
  for (const Functions& functions : kFunctions) {
    if (functions.kind == kind) return functions;
  }
  TENSORD_CHECK(false, "no functions for a kind of reduction");
  return kFunctions[0];
}

}  // namespace

ir::Value IdentityOf(ReduceKind kind, DType dtype) {
  const ir::Type type = ir::ScalarType(ComputeType(dtype));
  switch (kind) {
    case ReduceKind::kSum:
      return ir::NumberOf(dtype, 0, 0);
    case ReduceKind::kProd:
      return ir::NumberOf(dtype, 1, 1);
    case ReduceKind::kMin:
      return ir::CallOf("highest", {type}, {});
    case ReduceKind::kMax:
      return ir::CallOf("lowest", {type}, {});
    case ReduceKind::kAny:
    case ReduceKind::kAll:
      return ir::Condition(kind == ReduceKind::kAll);
    default:
      break;
  }
  TENSORD_CHECK(false, "not a plain reduction");
  return {};
}

ir::Value ScanIdentityOf(Op op, DType dtype) {
  switch (op) {
    case Op::k_add:
      return IdentityOf(ReduceKind::kSum, dtype);
    case Op::k_mul:
      return IdentityOf(ReduceKind::kProd, dtype);
    case Op::k_minimum:
      return IdentityOf(ReduceKind::kMin, dtype);
    case Op::k_maximum:
    case Op::k_logaddexp:  // -infinity
      return IdentityOf(ReduceKind::kMax, dtype);
    default:
      break;
  }
  TENSORD_CHECK(false, "not an operation that may be scanned");
  return {};
}

const StateFunctions* StateOf(ReduceKind kind) {
  const Functions& functions = Of(kind);
  return functions.state.name == nullptr ? nullptr : &functions.state;
}

std::string CombineFunction(ReduceKind kind) { return Of(kind).combine; }
std::string ReduceFunction(ReduceKind kind) { return Of(kind).reduce; }
std::string GroupFunction(ReduceKind kind) { return Of(kind).group; }

}  // namespace tensord::compiler
