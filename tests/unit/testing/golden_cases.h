// Tensors of the golden cases (tests/golden), and when a result equals eager's.
#ifndef TENSORD_TESTS_UNIT_TESTING_GOLDEN_CASES_H_
#define TENSORD_TESTS_UNIT_TESTING_GOLDEN_CASES_H_

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/testing/interpreter.h"

namespace tensord::testing {

using nlohmann::json;

inline double NumberOf(const json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

inline HostTensor TensorOf(const json& t) {
  std::vector<double> values;
  for (const json& v : t["values"]) values.push_back(NumberOf(v));
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  EXPECT_TRUE(v1::DType_Parse(t["dtype"].get<std::string>(), &dtype));
  return WithStrides(MakeTensor(t["sizes"].get<std::vector<int64_t>>(), values, dtype),
                     t["strides"].get<std::vector<int64_t>>());
}

inline bool Close(double actual, double expected, double tolerance) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::abs(actual - expected) <= tolerance * (1 + std::abs(expected));
}

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_GOLDEN_CASES_H_
