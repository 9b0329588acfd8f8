// SPDX-License-Identifier: Apache-2.0
// How each captured operator becomes tensor expressions: tables of `{name, function}`, one a family
// (operators/*.cc). What is known of an operator without lowering it, its schema above all, is in
// compiler/ops: an operator that is lowered has a line in both.
#ifndef TENSORD_COMPILER_DECOMPOSE_LOWERING_H_
#define TENSORD_COMPILER_DECOMPOSE_LOWERING_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "compiler/graph/graph.h"
#include "compiler/loop_ir/builder.h"
#include "compiler/ops/operators.h"

namespace tensord::compiler {

// A number as captured: its category matters for type promotion.
struct Scalar {
  enum Kind { kInt, kReal, kBoolean } kind = kInt;
  Expr integer;     // kInt (may be symbolic), kBoolean (0 or 1)
  double real = 0;  // kReal
  bool IsKnown() const { return kind == kReal || integer.IsConstant(); }  // not symbolic
  bool IsConstant(double value) const { return IsKnown() && AsDouble() == value; }
  double AsDouble() const;  // requires: IsKnown()
};

// Of an integer, real or boolean argument.
Scalar ScalarOf(const ArgumentValue& arg);

// One captured call, seen by its lowering: arguments by the names of the operator's schema, whose
// types import has checked. A name that the schema lacks ends the worker.
class Call {
 public:
  // Requires: the operator has a line in compiler/ops.
  Call(const Graph& graph, const Node& node, std::span<const std::vector<Tensor>> values);

  const Node& node() const { return node_; }
  const Operator& op() const { return *op_; }
  const ArgumentValue& argument(std::string_view name) const;
  // Whether the operator has such an argument at all; overloads differ in that.
  bool takes(std::string_view name) const { return op_->Position(name) >= 0; }
  bool has(std::string_view name) const;  // not none
  Tensor tensor(std::string_view name) const;
  Tensor tensor_of(const ArgumentValue& arg) const;  // of a kValue, also inside a list
  std::optional<Tensor> optional_tensor(std::string_view name) const;
  std::vector<Tensor> tensors(std::string_view name) const;
  std::vector<std::optional<Tensor>> optional_tensors(std::string_view name) const;
  Expr integer(std::string_view name) const;
  // An integer that is not symbolic. Of one that is, its hint, and needs_constant() from then on.
  int64_t constant(std::string_view name, int64_t when_none = 0) const;
  Sizes integers(std::string_view name) const;  // empty when none
  std::vector<int64_t> constants(std::string_view name) const;
  double real(std::string_view name, double when_none = 0) const;
  Scalar scalar(std::string_view name) const;
  bool boolean(std::string_view name, bool when_none = false) const;
  std::string text(std::string_view name) const;
  std::optional<DType> dtype(std::string_view name) const;
  // The arguments that are one tensor each, in the schema's order, for what serves operators whose
  // arguments have different names; none left out.
  std::vector<Tensor> tensor_operands() const;
  // The layout that eager gives to result `i`, and to the tensor that is an argument.
  const TensorType& result(int i = 0) const;
  const TensorType& argument_type(std::string_view name) const;
  const TensorType& type_of(const ArgumentValue& arg) const;  // of a kValue

  // Whether code that this call was lowered to holds for one value of a symbolic argument only.
  bool needs_constant() const { return needs_constant_; }

 private:
  int64_t ConstantOf(const Expr& e) const;

  const Graph& graph_;
  const Node& node_;
  const Operator* op_;
  std::span<const std::vector<Tensor>> values_;
  mutable bool needs_constant_ = false;
};

using Results = absl::StatusOr<std::vector<Tensor>>;
// Of an operator that has one.
inline Results AsResults(Tensor t) { return std::vector<Tensor>{std::move(t)}; }
using LowerFn = Results (*)(Builder& b, const Call& call);

struct Lowering {
  std::string_view name;  // of a line in compiler/ops
  LowerFn lower;
  // Where the library's is slower than code of ours: everywhere, or on one kind of device.
  v1::DeviceType only_on = v1::DEVICE_TYPE_UNSPECIFIED;

  bool IsLoweredOn(v1::DeviceType device) const {
    return only_on == v1::DEVICE_TYPE_UNSPECIFIED || only_on == device;
  }
};

// The operator's line; nullptr when nobody lowers it (it becomes an extern call).
const Lowering* FindLowering(std::string_view name);
// The same where operands or results are complex numbers: what computes has a line of its own.
const Lowering* FindComplexLowering(std::string_view name);
// The names of all tables, sorted.
std::vector<std::string> LoweringNames();

// ---- One table per file of operators/.
std::span<const Lowering> PointwiseLowerings();
std::span<const Lowering> NumberPartLowerings();
std::span<const Lowering> SpecialFunctionLowerings();
std::span<const Lowering> ActivationLowerings();  // activations and their backward forms
std::span<const Lowering> ReductionLowerings();
std::span<const Lowering> ScanLowerings();
std::span<const Lowering> SoftmaxLowerings();
std::span<const Lowering> NormLowerings();
std::span<const Lowering> LossLowerings();
std::span<const Lowering> ViewLowerings();
std::span<const Lowering> ConcatenationLowerings();
std::span<const Lowering> CreationLowerings();
std::span<const Lowering> IndexingLowerings();
std::span<const Lowering> RandomLowerings();
std::span<const Lowering> MatrixLowerings();
std::span<const Lowering> AttentionLowerings();
std::span<const Lowering> ProductByRowsLowerings();
std::span<const Lowering> MaxPoolLowerings();
std::span<const Lowering> MaxPoolBackwardLowerings();
std::span<const Lowering> AveragePoolLowerings();
std::span<const Lowering> SearchLowerings();
std::span<const Lowering> GridSamplerLowerings();
std::span<const Lowering> ComplexLowerings();  // of complex numbers
// Names in the other tables whose lowering serves complex numbers as well.
std::span<const std::string_view> MovesOfComplexNumbers();

// ---- Helpers that lowerings share.
// A dimension in [0, rank), from one in [-rank, rank).
absl::StatusOr<int> NormalizeDim(int64_t dim, int rank);
absl::StatusOr<std::vector<int>> NormalizeDims(const std::vector<int64_t>& dims, int rank);
// torch's type promotion over tensors and scalars.
DType PromotedType(const std::vector<Tensor>& tensors, const std::vector<Scalar>& scalars = {});
// A scalar as a lazy zero-dim tensor of that type.
Tensor ScalarTensor(Builder& b, const Scalar& s, DType dtype);
// The same elements as a new lazy value: what eager copies must not stay a view of its source. On a
// device that code is not generated for it is copied at once.
Tensor LazyCopy(Builder& b, const Tensor& t);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_LOWERING_H_
