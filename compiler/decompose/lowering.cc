#include "compiler/decompose/lowering.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "base/check.h"
#include "compiler/decompose/operators/join.h"

namespace tensord::compiler {
namespace {

using Table = absl::flat_hash_map<std::string, const Operator*>;

const Table& AllOperators() {
  static const Table* const table = [] {
    auto* all = new Table;
    for (const auto& part :
         {PointwiseOperators(), CompositeOperators(), ReductionOperators(), SoftmaxOperators(),
          NormOperators(), LossOperators(), ViewOperators(), JoinOperators(), CreationOperators(),
          IndexingOperators(), RandomOperators(), MatrixOperators(), PartedProductOperators(),
          PoolOperators()}) {
      for (const Operator& op : part) {
        const bool is_new = all->emplace(std::string(op.name), &op).second;
        TENSORD_CHECK(is_new, absl::StrCat("two lowerings of ", std::string(op.name)));
      }
    }
    return all;
  }();
  return *table;
}

// An integer that is not symbolic, else its value at capture.
int64_t ConstantOf(const Expr& e) { return e.AsConstant().value_or(sym::Hint(e)); }

double RealOf(const ArgumentValue& arg) {
  return arg.kind == ArgumentValue::kReal ? arg.real : static_cast<double>(ConstantOf(arg.integer));
}

}  // namespace

const Operator* FindOperator(std::string_view name) {
  const auto it = AllOperators().find(std::string(name));
  return it == AllOperators().end() ? nullptr : it->second;
}

std::vector<std::string> OperatorNames() {
  std::vector<std::string> names;
  for (const auto& [name, op] : AllOperators()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

// ---- Scalar

bool Scalar::IsConstant(double value) const {
  if (kind == kReal) return real == value;
  return integer.IsConstant() && static_cast<double>(*integer.AsConstant()) == value;
}

double Scalar::AsDouble() const {
  return kind == kReal ? real : static_cast<double>(ConstantOf(integer));
}

// ---- Call. The signature has been checked: wrong kinds are compiler bugs.

bool Call::has(int i) const { return node_.args[i].kind != ArgumentValue::kNone; }

Tensor Call::tensor(int i) const { return tensor_of(node_.args[i]); }

Tensor Call::tensor_of(const ArgumentValue& arg) const {
  TENSORD_CHECK(arg.kind == ArgumentValue::kValue, Describe(node_));
  return values_[arg.value][arg.output];
}

std::optional<Tensor> Call::optional_tensor(int i) const {
  if (!has(i)) return std::nullopt;
  return tensor(i);
}

std::vector<std::optional<Tensor>> Call::optional_tensors(int i) const {
  std::vector<std::optional<Tensor>> tensors;
  for (const ArgumentValue& item : node_.args[i].items) {
    if (item.kind == ArgumentValue::kNone) {
      tensors.push_back(std::nullopt);
    } else {
      tensors.push_back(values_[item.value][item.output]);
    }
  }
  return tensors;
}

std::vector<Tensor> Call::tensors(int i) const {
  std::vector<Tensor> tensors;
  for (const ArgumentValue& item : node_.args[i].items) {
    TENSORD_CHECK(item.kind == ArgumentValue::kValue, Describe(node_));
    tensors.push_back(values_[item.value][item.output]);
  }
  return tensors;
}

Expr Call::integer(int i) const { return node_.args[i].integer; }

int64_t Call::constant(int i, int64_t when_none) const {
  return has(i) ? ConstantOf(integer(i)) : when_none;
}

Sizes Call::integers(int i) const {
  const ArgumentValue& arg = node_.args[i];
  if (arg.kind == ArgumentValue::kInteger) return {arg.integer};  // int[1] given as an int
  Sizes values;
  for (const ArgumentValue& item : arg.items) values.push_back(item.integer);
  return values;
}

std::vector<int64_t> Call::constants(int i) const {
  std::vector<int64_t> values;
  for (const Expr& e : integers(i)) values.push_back(ConstantOf(e));
  return values;
}

double Call::real(int i, double when_none) const {
  return has(i) ? RealOf(node_.args[i]) : when_none;
}

Scalar Call::scalar(int i) const { return ScalarOf(node_.args[i]); }

std::vector<Scalar> Call::scalars(int i) const {
  std::vector<Scalar> values;
  for (const ArgumentValue& item : node_.args[i].items) values.push_back(ScalarOf(item));
  return values;
}

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

bool Call::boolean(int i, bool when_none) const {
  return has(i) ? ConstantOf(integer(i)) != 0 : when_none;
}

std::string Call::text(int i) const { return node_.args[i].text; }

std::optional<DType> Call::dtype(int i) const {
  if (!has(i)) return std::nullopt;
  return node_.args[i].dtype;
}

const TensorType& Call::result(int i) const {
  // A graph from outside may declare fewer results than the operator has; the driver reports it.
  static const TensorType* const absent = new TensorType;
  return i < static_cast<int>(node_.outputs.size()) ? node_.outputs[i] : *absent;
}

const TensorType& Call::argument_type(int i) const {
  const ArgumentValue& arg = node_.args[i];
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
  return b.Pointwise(dtype, {}, {}, 1, [e = s.integer, dtype](Recorder& ops, Index) {
    return ops.Index(e, ComputeType(dtype));
  });
}

Tensor LazyCopy(Builder& b, const Tensor& t) {
  return b.Pointwise(t.dtype(), t.sizes(), {t}, 0,
                     [t](Recorder& ops, Index index) { return t.Load(ops, index); });
}

}  // namespace tensord::compiler
