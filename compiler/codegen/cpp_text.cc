// SPDX-License-Identifier: Apache-2.0
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

std::string LiteralText(DType dtype, double number, int64_t integer) {
  if (dtype == kBool) return integer != 0 ? "true" : "false";
  const std::string type = StorageType(ComputeType(dtype));
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

}  // namespace tensord::compiler
