// SPDX-License-Identifier: Apache-2.0
// What passes know of an operator without lowering it: its arguments, its kind and its effects. One
// line in one table for each operator of torch's and of tensord's own that a pass asks about;
// operators without a line are library calls, of which nothing is known but their types.
//
// A line's text is torch's schema without defaults and results:
//
//     aten::add.Tensor(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha)
//
// The default overload has no suffix. Arguments behind `*` are given by keyword in Python; captured
// nodes have all arguments, in this order. Types are torch's words, with `?` behind them where the
// argument may be none and `[]` where it is a list (`Tensor?[]`: a list of optional tensors):
//     Tensor
//     int             also torch's SymInt: may be symbolic; a bool counts as one, and one integer
//                     may stand for a list of one
//     float           a number that is not symbolic
//     Scalar          a number: int, float or bool
//     Tensor|Scalar   captured graphs have numbers where torch's schema says Tensor
//     bool str ScalarType Device MemoryFormat Layout
//     Generator       always none: a generator has no form in a graph
// `Tensor(a!)` is written.
#ifndef TENSORD_COMPILER_OPS_OPERATORS_H_
#define TENSORD_COMPILER_OPS_OPERATORS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tensord::compiler {

enum class OperatorKind {
  kView,           // the same memory read in another order; the first argument is what is viewed
  kPointwise,      // element by element, of operands that broadcast; activations among them
  kReduction,      // over dimensions
  kScan,           // of all prefixes along a dimension
  kNormalization,  // softmax and norms: a reduction, and its result for every element
  kLoss,
  kConcatenation,  // parts joined, padded or put back into a whole
  kCreation,       // of numbers, without a tensor's elements
  kIndexing,       // at places that index tensors name
  kProduct,        // of matrices: a library call that takes operands of any strides
  kProductByRows,  // of matrices, in several library calls on parts of the operands
  kConvolution,
  kAttention,  // of scores that are never in memory
  kPooling,
  kRandom,
  kAssertion,  // facts that tracing checks
  kCallBack,   // whatever the job does there
};

enum OperatorTrait : uint32_t {
  // No lowering: always a library call.
  kByLibrary = 1 << 0,
  // Draws from the framework's random state, so that leaving it out changes what follows.
  kDrawsRandomNumbers = 1 << 1,
  // Nothing that matters in a compiled program: runs for nobody, whatever results it has.
  kNoEffect = 1 << 2,
  // The library's result shares its argument's memory; an operator of the same name with `_copy`
  // behind it makes a copy.
  kHasCopy = 1 << 3,
  // The library's result is channels-last when the first argument is.
  kFollowsLayout = 1 << 4,
  // The lowered result may have any layout, though the operator is not pointwise.
  kAnyResultLayout = 1 << 5,
  // Runs in the job, where it may do anything.
  kCallsBack = 1 << 6,
};

enum class ArgumentType {
  kTensor,
  kInteger,
  kReal,
  kNumber,
  kTensorOrNumber,
  kBoolean,
  kText,
  kDType,
  kDevice,
  kMemoryFormat,
  kLayout,
  kGenerator,
};

struct Parameter {
  std::string_view name;
  ArgumentType type;
  bool optional = false;  // the argument itself may be none
  bool list = false;
  bool optional_items = false;
  bool written = false;
};

struct Operator {
  std::string_view name;  // "aten::add.Tensor"
  std::string_view schema;
  OperatorKind kind;
  uint32_t traits = 0;
  std::vector<Parameter> parameters;
  int written = -1;  // the position of the argument (or list) whose memory is written, or -1

  bool Has(OperatorTrait trait) const { return (traits & trait) != 0; }
  // Whether there is code of ours for it; in some cases it may still be a library call.
  bool IsLowered() const { return !Has(kByLibrary); }
  // The position of an argument, or -1 where the schema has none of that name.
  int Position(std::string_view argument) const;
};

// The operator's line; nullptr when there is none.
const Operator* FindOperator(std::string_view name);
// All lines, sorted by name.
std::span<const Operator> AllOperators();

// ---- Of operators that may be unknown
inline bool IsOfKind(const Operator* op, OperatorKind kind) {
  return op != nullptr && op->kind == kind;
}
inline bool HasTrait(const Operator* op, OperatorTrait trait) {
  return op != nullptr && op->Has(trait);
}
inline bool IsLowered(const Operator* op) { return op != nullptr && op->IsLowered(); }
inline bool WritesArgument(const Operator* op) { return op != nullptr && op->written >= 0; }
// Whether it does something that its results and what it writes do not tell: it runs even where
// nobody reads it, after those before it of which that is true.
inline bool ActsBesides(const Operator* op) {
  return HasTrait(op, kDrawsRandomNumbers) || HasTrait(op, kCallsBack);
}

// "a tensor", "an integer": what an argument of that type must be.
const char* DescriptionOf(ArgumentType type);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_OPS_OPERATORS_H_
