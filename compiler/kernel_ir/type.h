// SPDX-License-Identifier: Apache-2.0
// The types of values in a generated kernel.
#ifndef TENSORD_COMPILER_KERNEL_IR_TYPE_H_
#define TENSORD_COMPILER_KERNEL_IR_TYPE_H_

#include <cstdint>

#include "compiler/graph/dtype.h"
#include "compiler/loop_ir/program.h"

namespace tensord::compiler::ir {

enum class TypeKind : uint8_t {
  kVoid,         // of calls that are statements
  kBool,         // a condition
  kInt,          // 32 bits, signed
  kUnsigned,     // 32 bits
  kIndex,        // loops, sizes and places in memory; as wide as the kernel says
  kInt64,        // the same, 64 bits in any kernel
  kScalar,       // one element of `dtype`
  kVector,       // `lanes` elements of `dtype`, a compute type; of bool: a mask
  kPacked,       // `lanes` elements of the storage type `dtype`, as they lie in memory
  kState,        // of a reduction `reduce` with a state of its own, for `lanes` lanes of `dtype`
  kByte,         // of scratch or shared memory; pointers only
  kCounter,      // of blocks; pointers only
  kGroupMemory,  // shared memory through which the threads of a group reduce
  kArguments,    // all that a launch passes
  kFunction,     // a function of the kernel, or a combiner
  kStruct,       // of the prelude's, as an operand of its functions
};

// Lanes of a vector whose width is the function's W.
inline constexpr int kWidth = 0;

struct Type {
  TypeKind kind = TypeKind::kVoid;
  DType dtype = v1::DTYPE_UNSPECIFIED;
  int lanes = 1;
  ReduceKind reduce = ReduceKind::kSum;
  bool pointer = false;   // to values of that type
  bool constant = false;  // of a pointer: nothing is written through it

  friend bool operator==(const Type&, const Type&) = default;

  bool IsMask() const { return kind == TypeKind::kVector && !pointer && dtype == kBool; }
  bool IsVector() const { return kind == TypeKind::kVector && !pointer; }
  // Of index arithmetic.
  bool IsInteger() const {
    return !pointer && (kind == TypeKind::kInt || kind == TypeKind::kUnsigned ||
                        kind == TypeKind::kIndex || kind == TypeKind::kInt64);
  }
};

inline constexpr Type kVoidType{};
inline constexpr Type kBoolType{TypeKind::kBool};
inline constexpr Type kIntType{TypeKind::kInt};
inline constexpr Type kUnsignedType{TypeKind::kUnsigned};
inline constexpr Type kIndexType{TypeKind::kIndex};
inline constexpr Type kInt64Type{TypeKind::kInt64};
inline constexpr Type kArgumentsType{TypeKind::kArguments};
inline constexpr Type kGroupMemoryType{TypeKind::kGroupMemory};
inline constexpr Type kFunctionType{TypeKind::kFunction};
inline constexpr Type kStructType{TypeKind::kStruct};

inline Type ScalarType(DType dtype) { return {TypeKind::kScalar, dtype}; }
inline Type VectorType(DType compute, int lanes) { return {TypeKind::kVector, compute, lanes}; }
inline Type MaskType(int lanes) { return VectorType(compiler::kBool, lanes); }
inline Type PackedType(DType storage, int lanes) { return {TypeKind::kPacked, storage, lanes}; }
inline Type StateType(ReduceKind reduce, DType compute, int lanes) {
  return {TypeKind::kState, compute, lanes, reduce};
}
inline Type PointerTo(Type type, bool constant = false) {
  type.pointer = true;
  type.constant = constant;
  return type;
}
inline Type BytesType(bool constant = false) { return PointerTo({TypeKind::kByte}, constant); }
// What a pointer points to.
inline Type Pointee(Type type) {
  type.pointer = type.constant = false;
  return type;
}

}  // namespace tensord::compiler::ir

#endif  // TENSORD_COMPILER_KERNEL_IR_TYPE_H_
