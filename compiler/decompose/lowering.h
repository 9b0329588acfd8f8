// The operator tables: how each captured operator becomes tensor expressions.
//
// An operator is one line in one table:
//     {"aten::gelu", "T str", Gelu},
// The signature lists the types of all schema arguments in order, separated by spaces:
//     T tensor   i integer (or symbolic)   f number as real   s scalar (int, real or bool)
//     x tensor or scalar   b bool   str text   d dtype   v device   m memory format   l layout
//     * anything (ignored)
// followed by `?` when it may be none and `[]` when it is a list (`T?[]`: list of optional tensors;
// `i[]?`: optional list). The verifier checks captured arguments against it, so that a lowering may
// read them without checking.
#ifndef TENSORD_COMPILER_DECOMPOSE_LOWERING_H_
#define TENSORD_COMPILER_DECOMPOSE_LOWERING_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "compiler/graph/graph.h"
#include "compiler/loop_ir/builder.h"

namespace tensord::compiler {

// A number as captured: its category matters for type promotion.
struct Scalar {
  enum Kind { kInt, kReal, kBoolean } kind = kInt;
  Expr integer;     // kInt (may be symbolic), kBoolean (0 or 1)
  double real = 0;  // kReal
  bool IsConstant(double value) const;
  double AsDouble() const;  // of a constant
};

// Of an integer, real or boolean argument.
Scalar ScalarOf(const ArgumentValue& arg);

// One captured call, seen by its lowering. Positions are schema positions.
class Call {
 public:
  Call(const Graph& graph, const Node& node, std::span<const std::vector<Tensor>> values)
      : graph_(graph), node_(node), values_(values) {}

  const Node& node() const { return node_; }
  bool has(int i) const;  // not none
  Tensor tensor(int i) const;
  Tensor tensor_of(const ArgumentValue& arg) const;  // of a kValue, also inside a list
  std::optional<Tensor> optional_tensor(int i) const;
  std::vector<Tensor> tensors(int i) const;
  std::vector<std::optional<Tensor>> optional_tensors(int i) const;
  Expr integer(int i) const;
  int64_t constant(int i,
                   int64_t when_none = 0) const;  // an integer that is not symbolic (else its hint)
  Sizes integers(int i) const;                    // empty when none
  std::vector<int64_t> constants(int i) const;
  double real(int i, double when_none = 0) const;
  Scalar scalar(int i) const;
  std::vector<Scalar> scalars(int i) const;
  bool boolean(int i, bool when_none = false) const;
  std::string text(int i) const;
  std::optional<DType> dtype(int i) const;
  // The layout that eager gives to result `i`, and to the tensor that is argument `i`.
  const TensorType& result(int i = 0) const;
  const TensorType& argument_type(int i) const;

 private:
  const Graph& graph_;
  const Node& node_;
  std::span<const std::vector<Tensor>> values_;
};

using Results = absl::StatusOr<std::vector<Tensor>>;
using LowerFn = Results (*)(Builder& b, const Call& call);

struct Operator {
  std::string_view name;  // "aten::add.Tensor"; the default overload has no suffix
  std::string_view signature;
  LowerFn lower;
  // The first argument's storage is written (aten::copy_).
  bool mutates_first = false;
  // Where the library's is slower than code of ours: everywhere, or on one kind of device.
  v1::DeviceType only_on = v1::DEVICE_TYPE_UNSPECIFIED;

  bool IsLoweredOn(v1::DeviceType device) const {
    return only_on == v1::DEVICE_TYPE_UNSPECIFIED || only_on == device;
  }
};

// The operator's line; nullptr when nobody lowers it (it becomes an extern call).
const Operator* FindOperator(std::string_view name);
// The names of all tables, sorted.
std::vector<std::string> OperatorNames();

// ---- One table per file of this folder.
std::span<const Operator> PointwiseOperators();
std::span<const Operator> CompositeOperators();  // activations and their backward forms
std::span<const Operator> ReductionOperators();
std::span<const Operator> SoftmaxOperators();
std::span<const Operator> NormOperators();
std::span<const Operator> LossOperators();
std::span<const Operator> ViewOperators();
std::span<const Operator> CreationOperators();
std::span<const Operator> IndexingOperators();
std::span<const Operator> RandomOperators();
std::span<const Operator> MatrixOperators();
std::span<const Operator> PartedProductOperators();
std::span<const Operator> PoolOperators();

// ---- Helpers that lowerings share.
// A dimension in [0, rank), from one in [-rank, rank).
absl::StatusOr<int> NormalizeDim(int64_t dim, int rank);
absl::StatusOr<std::vector<int>> NormalizeDims(const std::vector<int64_t>& dims, int rank);
// torch's type promotion over tensors and scalars.
DType PromotedType(const std::vector<Tensor>& tensors, const std::vector<Scalar>& scalars = {});
// A scalar as a lazy zero-dim tensor of that type.
Tensor ScalarTensor(Builder& b, const Scalar& s, DType dtype);
// The same elements as a new lazy value: what eager copies must not stay a view of its source.
Tensor LazyCopy(Builder& b, const Tensor& t);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_LOWERING_H_
