// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/lowering.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "compiler/decompose/extern_call.h"
#include "compiler/graph/arguments.h"

namespace tensord::compiler {
namespace {

using Table = absl::flat_hash_map<std::string_view, const Lowering*>;

const Table& AllLowerings() {
  static const Table* const table = [] {
    auto* all = new Table;
    for (const auto& part : {PointwiseLowerings(),
                             NumberPartLowerings(),
                             SpecialFunctionLowerings(),
                             ActivationLowerings(),
                             ReductionLowerings(),
                             ScanLowerings(),
                             SoftmaxLowerings(),
                             NormLowerings(),
                             LossLowerings(),
                             ViewLowerings(),
                             ConcatenationLowerings(),
                             CreationLowerings(),
                             IndexingLowerings(),
                             RandomLowerings(),
                             MatrixLowerings(),
                             AttentionLowerings(),
                             ProductByRowsLowerings(),
                             MaxPoolLowerings(),
                             MaxPoolBackwardLowerings(),
                             AveragePoolLowerings(),
                             SearchLowerings(),
                             GridSamplerLowerings()}) {
      for (const Lowering& lowering : part) {
        const bool is_new = all->emplace(lowering.name, &lowering).second;
        TENSORD_CHECK(is_new, absl::StrCat("two lowerings of ", std::string(lowering.name)));
      }
    }
    return all;
  }();
  return *table;
}

const Lowering* FindIn(const Table& table, std::string_view name) {
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

const Table& LoweringsOfComplexNumbers() {
  static const Table* const table = [] {
    auto* all = new Table;
    for (const Lowering& lowering : ComplexLowerings()) all->emplace(lowering.name, &lowering);
    for (const std::string_view name : MovesOfComplexNumbers()) {
      const Lowering* const lowering = FindIn(AllLowerings(), name);
      TENSORD_CHECK(lowering != nullptr, absl::StrCat("no lowering of ", std::string(name)));
      const bool is_new = all->emplace(name, lowering).second;
      TENSORD_CHECK(is_new, absl::StrCat("two lowerings of ", std::string(name)));
    }
    for (const Lowering& lowering : ViewLowerings()) {
      const Operator* const op = FindOperator(lowering.name);
      const bool is_view = IsOfKind(op, OperatorKind::kView) && op->name != "aten::view.dtype";
      if (is_view) all->emplace(lowering.name, &lowering);
    }
    return all;
  }();
  return *table;
}

}  // namespace

const Lowering* FindLowering(std::string_view name) {
  const Lowering* const of_real = FindIn(AllLowerings(), name);
  return of_real != nullptr ? of_real : FindComplexLowering(name);
}

const Lowering* FindComplexLowering(std::string_view name) {
  return FindIn(LoweringsOfComplexNumbers(), name);
}

std::vector<std::string> LoweringNames() {
  std::set<std::string_view> all;
  for (const Table* table : {&AllLowerings(), &LoweringsOfComplexNumbers()}) {
    for (const auto& [name, lowering] : *table) all.insert(name);
  }
  std::vector<std::string> names(all.begin(), all.end());
  return names;
}

// ---- Scalar

double Scalar::AsDouble() const {
  if (kind == kReal) return real;
  TENSORD_CHECK(integer.IsConstant(), "a symbolic number is no double");
  return static_cast<double>(*integer.AsConstant());
}

// ---- Call. Arguments have been checked: wrong kinds are compiler bugs.

Call::Call(const Graph& graph, const Node& node, std::span<const std::vector<Tensor>> values)
    : graph_(graph), node_(node), op_(FindOperator(node.op)), values_(values) {
  TENSORD_CHECK(op_ != nullptr, Describe(node));
}

const ArgumentValue& Call::argument(std::string_view name) const {
  const int position = op_->Position(name);
  TENSORD_CHECK(position >= 0,
                absl::StrCat(Describe(node_), " has no argument ", std::string(name)));
  return node_.args[position];
}

bool Call::has(std::string_view name) const { return argument(name).kind != ArgumentValue::kNone; }

Tensor Call::tensor(std::string_view name) const { return tensor_of(argument(name)); }

Tensor Call::tensor_of(const ArgumentValue& arg) const {
  TENSORD_CHECK(arg.kind == ArgumentValue::kValue, Describe(node_));
  return values_[arg.value][arg.output];
}

std::optional<Tensor> Call::optional_tensor(std::string_view name) const {
  if (!has(name)) return std::nullopt;
  return tensor(name);
}

std::vector<std::optional<Tensor>> Call::optional_tensors(std::string_view name) const {
  std::vector<std::optional<Tensor>> tensors;
  for (const ArgumentValue& item : argument(name).items) {
    if (item.kind == ArgumentValue::kNone) {
      tensors.push_back(std::nullopt);
    } else {
      tensors.push_back(values_[item.value][item.output]);
    }
  }
  return tensors;
}

std::vector<Tensor> Call::tensors(std::string_view name) const {
  std::vector<Tensor> tensors;
  for (const ArgumentValue& item : argument(name).items) {
    TENSORD_CHECK(item.kind == ArgumentValue::kValue, Describe(node_));
    tensors.push_back(values_[item.value][item.output]);
  }
  return tensors;
}

std::vector<Tensor> Call::tensor_operands() const {
  std::vector<Tensor> tensors;
  for (const ArgumentValue& arg : node_.args) {
    if (IsValue(arg)) tensors.push_back(tensor_of(arg));
  }
  return tensors;
}

Expr Call::integer(std::string_view name) const { return argument(name).integer; }

int64_t Call::ConstantOf(const Expr& e) const {
  needs_constant_ = needs_constant_ || !e.IsConstant();
  return e.AsConstant().value_or(sym::Hint(e));
}

int64_t Call::constant(std::string_view name, int64_t when_none) const {
  return has(name) ? ConstantOf(integer(name)) : when_none;
}

Sizes Call::integers(std::string_view name) const {
  const ArgumentValue& arg = argument(name);
  if (arg.kind == ArgumentValue::kInteger) return {arg.integer};  // int[1] given as an int
  Sizes values;
  for (const ArgumentValue& item : arg.items) values.push_back(item.integer);
  return values;
}

std::vector<int64_t> Call::constants(std::string_view name) const {
  std::vector<int64_t> values;
  for (const Expr& e : integers(name)) values.push_back(ConstantOf(e));
  return values;
}

double Call::real(std::string_view name, double when_none) const {
  if (!has(name)) return when_none;
  const ArgumentValue& arg = argument(name);
  return arg.kind == ArgumentValue::kReal ? arg.real : static_cast<double>(ConstantOf(arg.integer));
}

Scalar Call::scalar(std::string_view name) const { return ScalarOf(argument(name)); }

Scalar ScalarOf(const ArgumentValue& arg) {
  switch (arg.kind) {
    case ArgumentValue::kReal:
      return {Scalar::kReal, Expr(0), arg.real};
    case ArgumentValue::kBoolean:
      return {Scalar::kBoolean, arg.integer, 0};
    default:
      return {Scalar::kInt, arg.integer, 0};
  }
}

bool Call::boolean(std::string_view name, bool when_none) const {
  return has(name) ? ConstantOf(integer(name)) != 0 : when_none;
}

std::string Call::text(std::string_view name) const { return argument(name).text; }

std::optional<DType> Call::dtype(std::string_view name) const {
  if (!has(name)) return std::nullopt;
  return argument(name).dtype;
}

const TensorType& Call::result(int i) const {
  // A graph from outside may declare fewer results than the operator has; the driver reports it.
  static const TensorType* const absent = new TensorType;
  return i < static_cast<int>(node_.outputs.size()) ? node_.outputs[i] : *absent;
}

const TensorType& Call::argument_type(std::string_view name) const {
  return type_of(argument(name));
}

const TensorType& Call::type_of(const ArgumentValue& arg) const {
  TENSORD_CHECK(arg.kind == ArgumentValue::kValue, Describe(node_));
  return graph_.TypeOf(arg.value, arg.output);
}

// ---- Helpers

absl::StatusOr<int> NormalizeDim(int64_t dim, int rank) {
  // A zero-dim tensor takes dimensions 0 and -1, as in eager.
  const int64_t range = std::max(rank, 1);
  if (dim < -range || dim >= range) {
    return absl::InvalidArgumentError(
        absl::StrCat("dimension ", dim, " is out of range for rank ", rank));
  }
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

absl::StatusOr<std::vector<int>> NormalizeDims(const std::vector<int64_t>& dims, int rank) {
  std::vector<int> normal;
  for (int64_t dim : dims) {
    TENSORD_ASSIGN_OR_RETURN(const int d, NormalizeDim(dim, rank));
    if (std::find(normal.begin(), normal.end(), d) != normal.end()) {
      return absl::InvalidArgumentError(absl::StrCat("dimension ", dim, " is named twice"));
    }
    if (rank > 0) normal.push_back(d);
  }
  return normal;
}

DType PromotedType(const std::vector<Tensor>& tensors, const std::vector<Scalar>& scalars) {
  PromotionState state;
  for (const Tensor& t : tensors) {
    DType& type = t.rank() > 0 ? state.dimensioned : state.zero_dim;
    type = PromoteTypes(type, t.dtype());
  }
  for (const Scalar& s : scalars) {
    const DType type = s.kind == Scalar::kReal ? kFloat32 : s.kind == Scalar::kInt ? kInt64 : kBool;
    state.number = PromoteTypes(state.number, type);
  }
  return ResultType(state);
}

Tensor ScalarTensor(Builder& b, const Scalar& s, DType dtype) {
  // What is not zero is true.
  if (dtype == kBool && (s.kind == Scalar::kReal || s.integer.IsConstant())) {
    return b.FullInt(dtype, {}, s.IsConstant(0) ? 0 : 1);
  }
  if (s.kind == Scalar::kReal) return b.Full(dtype, {}, s.real);
  if (s.integer.IsConstant()) return b.FullInt(dtype, {}, *s.integer.AsConstant());
  if (IsComplex(dtype)) return b.Cast(ScalarTensor(b, s, PartType(dtype)), dtype);
  return b.Pointwise(dtype, {}, {}, 1, [e = s.integer, dtype](Recorder& ops, Index) {
    return ops.Index(e, ComputeType(dtype));
  });
}

Tensor LazyCopy(Builder& b, const Tensor& t) {
  if (t.device() != b.device()) return CopyWhereItLies(b, t, ContiguousStrides(t.sizes()));
  return b.Pointwise(t.dtype(), t.sizes(), {t}, 0,
                     [t](Recorder& ops, Index index) { return t.Load(ops, index); });
}

}  // namespace tensord::compiler
