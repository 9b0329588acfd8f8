// SPDX-License-Identifier: Apache-2.0
// tests/golden/expression_vectors.json, which every evaluator of sizes is compared with.
// TENSORD_GOLDEN_DIR: the folder, from the build.
#ifndef TENSORD_TESTS_UNIT_TESTING_EXPRESSION_VECTORS_H_
#define TENSORD_TESTS_UNIT_TESTING_EXPRESSION_VECTORS_H_

#include <google/protobuf/util/json_util.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "tensord/v1/graph.pb.h"

namespace tensord::testing {

struct ExpressionVector {
  struct Result {
    std::vector<int64_t> symbols;
    std::optional<int64_t> value;  // nothing: a step overflows or divides by zero
  };
  v1::SymExpr expression;  // over two symbols
  std::vector<Result> results;
};

inline std::vector<ExpressionVector> ReadExpressionVectors() {
  std::ifstream file(TENSORD_GOLDEN_DIR "/expression_vectors.json");
  std::vector<ExpressionVector> vectors;
  for (const nlohmann::json& line : nlohmann::json::parse(file)) {
    ExpressionVector& vector = vectors.emplace_back();
    const auto status =
        google::protobuf::util::JsonStringToMessage(line["expression"].dump(), &vector.expression);
    if (!status.ok()) return {};
    for (const nlohmann::json& result : line["results"]) {
      vector.results.push_back({.symbols = result["symbols"]});
      if (!result["result"].is_null()) vector.results.back().value = result["result"];
    }
  }
  return vectors;
}

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_EXPRESSION_VECTORS_H_
