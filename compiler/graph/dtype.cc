// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/dtype.h"

#include <array>

namespace tensord::compiler {
namespace {

enum Category { kNone, kBoolean, kSignedInt, kUnsignedInt, kFloat, kComplex };

struct Info {
  DType dtype;
  const char* name;
  int64_t size;
  Category category;
};

constexpr std::array<Info, 18> kInfos = {{
    {v1::DTYPE_UNSPECIFIED, "none", 0, kNone},
    {v1::DTYPE_BOOL, "bool", 1, kBoolean},
    {v1::DTYPE_UINT8, "uint8", 1, kUnsignedInt},
    {v1::DTYPE_INT8, "int8", 1, kSignedInt},
    {v1::DTYPE_INT16, "int16", 2, kSignedInt},
    {v1::DTYPE_INT32, "int32", 4, kSignedInt},
    {v1::DTYPE_INT64, "int64", 8, kSignedInt},
    {v1::DTYPE_FLOAT16, "float16", 2, kFloat},
    {v1::DTYPE_BFLOAT16, "bfloat16", 2, kFloat},
    {v1::DTYPE_FLOAT32, "float32", 4, kFloat},
    {v1::DTYPE_FLOAT64, "float64", 8, kFloat},
    {v1::DTYPE_COMPLEX64, "complex64", 8, kComplex},
    {v1::DTYPE_COMPLEX128, "complex128", 16, kComplex},
    {v1::DTYPE_FLOAT8_E4M3FN, "float8_e4m3fn", 1, kFloat},
    {v1::DTYPE_FLOAT8_E5M2, "float8_e5m2", 1, kFloat},
    {v1::DTYPE_UINT16, "uint16", 2, kUnsignedInt},
    {v1::DTYPE_UINT32, "uint32", 4, kUnsignedInt},
    {v1::DTYPE_UINT64, "uint64", 8, kUnsignedInt},
}};

const Info& InfoOf(DType dtype) {
  const int i = static_cast<int>(dtype);
  return kInfos[i >= 0 && i < static_cast<int>(kInfos.size()) ? i : 0];
}

// bool < integer < float < complex.
int Rank(DType dtype) {
  switch (InfoOf(dtype).category) {
    case kNone:
      return -1;
    case kBoolean:
      return 0;
    case kSignedInt:
    case kUnsignedInt:
      return 1;
    case kFloat:
      return 2;
    default:
      return 3;
  }
}

}  // namespace

int64_t ItemSize(DType dtype) { return InfoOf(dtype).size; }
const char* DTypeName(DType dtype) { return InfoOf(dtype).name; }
bool IsFloating(DType dtype) { return InfoOf(dtype).category == kFloat; }
bool IsComplex(DType dtype) { return InfoOf(dtype).category == kComplex; }
bool Is16BitFloat(DType dtype) { return dtype == v1::DTYPE_FLOAT16 || dtype == v1::DTYPE_BFLOAT16; }
bool RunsOnTensorCores(DType dtype) { return Is16BitFloat(dtype) || dtype == kFloat32; }
bool IsInteger(DType dtype) { return Rank(dtype) == 1; }
bool IsUnsigned(DType dtype) { return InfoOf(dtype).category == kUnsignedInt; }

DType PartType(DType dtype) {
  if (dtype == v1::DTYPE_COMPLEX64) return kFloat32;
  return dtype == v1::DTYPE_COMPLEX128 ? kFloat64 : dtype;
}

DType ComplexType(DType part) {
  return part == kFloat64 ? v1::DTYPE_COMPLEX128 : v1::DTYPE_COMPLEX64;
}

DType ComputeType(DType storage) {
  const DType part = PartType(storage);
  return IsFloating(part) && part != kFloat64 ? kFloat32 : part;
}

DType PromoteTypes(DType a, DType b) {
  if (a == b || b == v1::DTYPE_UNSPECIFIED) return a;
  if (a == v1::DTYPE_UNSPECIFIED) return b;
  if (IsComplex(a) || IsComplex(b)) {
    return a == v1::DTYPE_COMPLEX128 || b == v1::DTYPE_COMPLEX128 || a == kFloat64 || b == kFloat64
               ? v1::DTYPE_COMPLEX128
               : v1::DTYPE_COMPLEX64;
  }
  if (Rank(a) != Rank(b)) return Rank(a) > Rank(b) ? a : b;
  if (Rank(a) == 1) {
    if (IsUnsigned(a) == IsUnsigned(b)) return ItemSize(a) > ItemSize(b) ? a : b;
    const DType u = IsUnsigned(a) ? a : b, s = IsUnsigned(a) ? b : a;
    if (ItemSize(s) > ItemSize(u)) return s;
    return u == v1::DTYPE_UINT8 ? v1::DTYPE_INT16 : ItemSize(u) == 2 ? kInt32 : kInt64;
  }
  // Floats: the wider; two different types of one width meet in float32.
  if (ItemSize(a) != ItemSize(b)) return ItemSize(a) > ItemSize(b) ? a : b;
  return kFloat32;
}

DType ResultType(const PromotionState& state) {
  const auto combine = [](DType higher, DType lower) {
    if (higher == v1::DTYPE_UNSPECIFIED) return lower;
    if (Rank(higher) >= Rank(lower)) return higher;
    if (IsFloating(higher)) return ComplexType(higher);
    return lower;
  };
  return combine(state.dimensioned, combine(state.zero_dim, state.number));
}

}  // namespace tensord::compiler
