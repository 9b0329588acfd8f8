// SPDX-License-Identifier: Apache-2.0
// tests/golden/expression_vectors.json and definition_vectors.json, which every evaluator of sizes
// is compared with. TENSORD_GOLDEN_DIR: the folder, from the build.
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

template <class Message>
struct SizeVector {
  struct Result {
    std::vector<int64_t> symbols;
    std::optional<int64_t> value;  // nothing: a step overflows or divides by zero
  };
  Message message;  // over two symbols
  std::vector<Result> results;
};

template <class Message>
std::vector<SizeVector<Message>> ReadSizeVectors(const char* path, const char* key) {
  std::ifstream file(path);
  std::vector<SizeVector<Message>> vectors;
  for (const nlohmann::json& line : nlohmann::json::parse(file)) {
    SizeVector<Message>& vector = vectors.emplace_back();
    const auto status =
        google::protobuf::util::JsonStringToMessage(line[key].dump(), &vector.message);
    if (!status.ok()) return {};
    for (const nlohmann::json& result : line["results"]) {
      vector.results.push_back({.symbols = result["symbols"]});
      if (!result["result"].is_null()) vector.results.back().value = result["result"];
    }
  }
  return vectors;
}

inline std::vector<SizeVector<v1::SymExpr>> ReadExpressionVectors() {
  return ReadSizeVectors<v1::SymExpr>(TENSORD_GOLDEN_DIR "/expression_vectors.json", "expression");
}

inline std::vector<SizeVector<v1::Definition>> ReadDefinitionVectors() {
  return ReadSizeVectors<v1::Definition>(TENSORD_GOLDEN_DIR "/definition_vectors.json",
                                         "definition");
}

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_EXPRESSION_VECTORS_H_
