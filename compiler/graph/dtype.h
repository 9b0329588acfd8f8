// SPDX-License-Identifier: Apache-2.0
// Facts about element types.
#ifndef TENSORD_COMPILER_GRAPH_DTYPE_H_
#define TENSORD_COMPILER_GRAPH_DTYPE_H_

#include <cstdint>

#include "tensord/v1/graph.pb.h"

namespace tensord::compiler {

using DType = v1::DType;

inline constexpr DType kBool = v1::DTYPE_BOOL;
inline constexpr DType kInt64 = v1::DTYPE_INT64;
inline constexpr DType kInt32 = v1::DTYPE_INT32;
inline constexpr DType kFloat32 = v1::DTYPE_FLOAT32;
inline constexpr DType kFloat64 = v1::DTYPE_FLOAT64;

// Bytes of one element; 0 for DTYPE_UNSPECIFIED.
int64_t ItemSize(DType dtype);
// "float32", "int64": torch's names.
const char* DTypeName(DType dtype);

bool IsFloating(DType dtype);  // real floating point, any width
bool IsComplex(DType dtype);
bool Is16BitFloat(DType dtype);  // float16 and bfloat16
// What the GPU's libraries multiply on tensor cores; float32 as TF32, where torch allows it.
bool RunsOnTensorCores(DType dtype);
bool IsInteger(DType dtype);   // without bool
bool IsUnsigned(DType dtype);  // without bool

// The type of a complex number's two parts; of other types the type itself.
DType PartType(DType dtype);
// The complex type whose parts are of this floating type: complex64 for the narrow floats.
DType ComplexType(DType part);

// The type in which a kernel computes on this storage type: float32 for the narrow floats, the
// parts' for complex numbers, itself otherwise.
DType ComputeType(DType storage);

// torch.promote_types for two dimensioned operands.
DType PromoteTypes(DType a, DType b);

// torch's result type of mixed categories: an operand of a lower priority (dimensioned < zero-dim
// tensor < Python number) only counts where its category (bool < integer < float < complex) is
// higher; of a complex one beside floats the category alone.
struct PromotionState {
  DType dimensioned = v1::DTYPE_UNSPECIFIED;
  DType zero_dim = v1::DTYPE_UNSPECIFIED;
  DType number = v1::DTYPE_UNSPECIFIED;  // kBool, kInt64 or kFloat32 (the default type)
};
DType ResultType(const PromotionState& state);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_GRAPH_DTYPE_H_
