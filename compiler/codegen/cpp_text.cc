#include "compiler/codegen/cpp_text.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <cmath>
#include <cstdint>

#include "base/check.h"

namespace tensord::compiler {

std::string StorageType(DType dtype) {
  switch (dtype) {
    case v1::DTYPE_BOOL:
      return "bool";
    case v1::DTYPE_UINT8:
      return "uint8_t";
    case v1::DTYPE_INT8:
      return "int8_t";
    case v1::DTYPE_INT16:
      return "int16_t";
    case v1::DTYPE_INT32:
      return "int32_t";
    case v1::DTYPE_INT64:
      return "int64_t";
    case v1::DTYPE_UINT16:
      return "uint16_t";
    case v1::DTYPE_UINT32:
      return "uint32_t";
    case v1::DTYPE_UINT64:
      return "uint64_t";
    case v1::DTYPE_FLOAT16:
      return "tk::half";
    case v1::DTYPE_BFLOAT16:
      return "tk::bfloat16";
    case v1::DTYPE_FLOAT32:
      return "float";
    case v1::DTYPE_FLOAT64:
      return "double";
    case v1::DTYPE_FLOAT8_E4M3FN:
      return "tk::float8_e4m3fn";
    case v1::DTYPE_FLOAT8_E5M2:
      return "tk::float8_e5m2";
    default:
      break;
  }
  TENSORD_CHECK(false, absl::StrCat("no C++ type for ", DTypeName(dtype)));
  return "";
}

std::string ComputeTypeText(DType dtype) { return StorageType(ComputeType(dtype)); }

std::string Literal(DType dtype, double number, int64_t integer) {
  if (dtype == kBool) return integer != 0 ? "true" : "false";
  const std::string type = ComputeTypeText(dtype);
  if (IsFloating(dtype)) {
    if (std::isnan(number)) return absl::StrCat("tk::quiet_nan<", type, ">()");
    if (std::isinf(number)) {
      return absl::StrCat(number < 0 ? "-" : "", "tk::infinity<", type, ">()");
    }
    if (number == 0 && std::signbit(number)) return absl::StrCat(type, "(-0.0)");
    if (dtype == kFloat64) return absl::StrFormat("double(%.17g)", number);
    return absl::StrFormat("float(%.9g)", static_cast<double>(static_cast<float>(number)));
  }
  if (integer == INT64_MIN) return "int64_t(-9223372036854775807 - 1)";
  return absl::StrCat(type, "(", integer, ")");
}

std::string Identity(ReduceKind kind, DType dtype) {
  const std::string type = ComputeTypeText(dtype);
  switch (kind) {
    case ReduceKind::kSum:
      return Literal(dtype, 0, 0);
    case ReduceKind::kProd:
      return Literal(dtype, 1, 1);
    case ReduceKind::kMin:
    case ReduceKind::kArgMin:
      return absl::StrCat("tk::highest<", type, ">()");
    case ReduceKind::kMax:
    case ReduceKind::kArgMax:
      return absl::StrCat("tk::lowest<", type, ">()");
    case ReduceKind::kAny:
      return "false";
    case ReduceKind::kAll:
      return "true";
    default:
      break;  // states of their own
  }
  return "";
}

const char* CombineFunction(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "tk::add";
    case ReduceKind::kProd:
      return "tk::mul";
    case ReduceKind::kMin:
      return "tk::minimum";
    case ReduceKind::kMax:
      return "tk::maximum";
    case ReduceKind::kAny:
      return "tk::logical_or";
    case ReduceKind::kAll:
      return "tk::logical_and";
    default:
      break;
  }
  TENSORD_CHECK(false, "not a plain reduction");
  return "";
}

const char* ReduceFunction(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "tk::reduce_sum";
    case ReduceKind::kProd:
      return "tk::reduce_prod";
    case ReduceKind::kMin:
      return "tk::reduce_min";
    case ReduceKind::kMax:
      return "tk::reduce_max";
    case ReduceKind::kAny:
      return "tk::reduce_any";
    case ReduceKind::kAll:
      return "tk::reduce_all";
    default:
      break;
  }
  TENSORD_CHECK(false, "not a plain reduction");
  return "";
}

const StateText* StateOf(ReduceKind kind) {
  static constexpr StateText kWelford{"welford", {"mean", "m2"}};
  static constexpr StateText kSoftmax{"softmax", {"max", "sum"}};
  static constexpr StateText kArgMax{"argmax", {"index", nullptr}};
  static constexpr StateText kArgMin{"argmin", {"index", nullptr}};
  switch (kind) {
    case ReduceKind::kWelford:
      return &kWelford;
    case ReduceKind::kOnlineSoftmax:
      return &kSoftmax;
    case ReduceKind::kArgMax:
      return &kArgMax;
    case ReduceKind::kArgMin:
      return &kArgMin;
    default:
      return nullptr;
  }
}

std::string CombineText(ReduceKind kind) {
  const StateText* state = StateOf(kind);
  return state != nullptr ? absl::StrCat("tk::", state->name, "_combine") : CombineFunction(kind);
}

}  // namespace tensord::compiler
