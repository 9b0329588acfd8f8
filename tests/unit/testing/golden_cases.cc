// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/testing/golden_cases.h"

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/check.h"

namespace tensord::testing {
namespace {

using nlohmann::json;

double NumberOf(const json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

HostTensor TensorOf(const json& t) {
  std::vector<double> values;
  for (const json& v : t["values"]) values.push_back(NumberOf(v));
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  TENSORD_CHECK(v1::DType_Parse(t["dtype"].get<std::string>(), &dtype), t["dtype"].dump());
  return WithStrides(MakeTensor(t["sizes"].get<std::vector<int64_t>>(), values, dtype),
                     t["strides"].get<std::vector<int64_t>>());
}

// Every field of the message, and of those in it, that says CPU.
void MoveToCuda(google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->enum_type() == v1::DeviceType_descriptor() && !field->is_repeated()) {
      reflection.SetEnumValue(&message, field, v1::DEVICE_TYPE_CUDA);
    }
    if (field->message_type() == nullptr) continue;
    if (!field->is_repeated()) {
      MoveToCuda(*reflection.MutableMessage(&message, field));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      MoveToCuda(*reflection.MutableRepeatedMessage(&message, field, i));
    }
  }
}

GoldenCase CaseOf(const json& c) {
  GoldenCase golden{.name = c["name"], .tolerance = c["tolerance"]};
  const auto status = google::protobuf::util::JsonStringToMessage(c["graph"].dump(), &golden.graph);
  TENSORD_CHECK(status.ok(), golden.name);
  for (const json& input : c["inputs"]) golden.inputs.push_back(TensorOf(input));
  for (const json& result : c["results"]) {
    golden.results.emplace_back();
    if (!result.is_null()) golden.results.back() = TensorOf(result);
  }
  return golden;
}

bool Close(double actual, double expected, double tolerance) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::abs(actual - expected) <= tolerance * (1 + std::abs(expected));
}

// FNV-1a, the same on every machine.
uint64_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

std::string GoldenCase::Operator() const {
  const v1::Node& node = graph.nodes(0);
  return node.overload().empty() ? node.op() : node.op() + "." + node.overload();
}

v1::DeviceType GoldenCase::device() const { return graph.nodes(0).outputs(0).device(); }

void PrintTo(const GoldenCase* golden, std::ostream* out) { *out << golden->name; }

const std::vector<GoldenCase>& GoldenCases() {
  static const auto* const cases = [] {
    auto* all = new std::vector<GoldenCase>;
    for (const auto& entry : std::filesystem::directory_iterator(TENSORD_GOLDEN_DIR "/cases")) {
      std::ifstream file(entry.path());
      for (const json& c : json::parse(file)) all->push_back(CaseOf(c));
    }
    std::ranges::sort(*all, {}, &GoldenCase::name);
    return all;
  }();
  return *cases;
}

std::vector<const GoldenCase*> GoldenParameters(int one_in) {
  const bool filtered = GTEST_FLAG_GET(filter) != "*";
  std::vector<const GoldenCase*> parameters;
  for (const GoldenCase& golden : GoldenCases()) {
    if (filtered || Hash(golden.name) % one_in == 0) parameters.push_back(&golden);
  }
  return parameters;
}

void ExpectResults(const GoldenCase& golden, const std::vector<HostTensor>& outputs) {
  ASSERT_EQ(outputs.size(), golden.results.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!golden.results[i]) continue;
    const HostTensor& expected = *golden.results[i];
    EXPECT_EQ(outputs[i].dtype, expected.dtype);
    ASSERT_EQ(outputs[i].sizes, expected.sizes);
    EXPECT_EQ(outputs[i].strides, expected.strides);
    const std::vector<double> actual = outputs[i].Values(), wanted = expected.Values();
    ASSERT_EQ(actual.size(), wanted.size());
    for (size_t k = 0; k < actual.size(); ++k) {
      ASSERT_TRUE(Close(actual[k], wanted[k], golden.tolerance))
          << "result " << i << ", element " << k << ": " << actual[k] << ", eager has "
          << wanted[k];
    }
  }
}

v1::Graph OnCuda(v1::Graph graph) {
  MoveToCuda(graph);
  return graph;
}

}  // namespace tensord::testing
