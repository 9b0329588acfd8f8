// SPDX-License-Identifier: Apache-2.0
#include "server/compile/key_parts.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "base/sha256.h"
#include "server/program/encoder.h"

namespace tensord::server {
namespace {

// The first byte of what a store keeps.
constexpr char kForm = 1;
constexpr size_t kCompared = 1 + kKeyParts * sizeof(uint64_t) + sizeof(Sketch);

// Of the sketch: two numbers each, so that graphs with much in common share at least one band.
constexpr size_t kBands = 3;
constexpr size_t kRows = 2;

uint64_t Digest64(std::string_view bytes) {
  uint64_t digest;
  std::memcpy(&digest, Sha256(bytes).data(), sizeof digest);
  return digest;
}

// The finaliser of splitmix64 (Steele, Lea and Flood 2014).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// What an argument takes of the graph, and what it says by itself.
template <class List>
void EncodeArguments(const List& arguments, Encoder& operators, Encoder& literals) {
  operators.Number(static_cast<uint64_t>(arguments.size()));
  for (const v1::Argument& argument : arguments) {
    switch (argument.kind_case()) {
      case v1::Argument::kValue:
        operators.Number(argument.kind_case()).Whole(argument.value());
        literals.Number(0);
        break;
      case v1::Argument::kList:
        operators.Number(argument.kind_case());
        EncodeArguments(argument.list().items(), operators, literals);
        break;
      default:
        operators.Number(0);
        literals.Whole(argument);
    }
  }
}

template <class List, class Visit>
void ForEachValue(const List& arguments, const Visit& visit) {
  for (const v1::Argument& argument : arguments) {
    if (argument.has_value()) visit(argument.value().value());
    if (argument.has_list()) ForEachValue(argument.list().items(), visit);
  }
}

Sketch SketchOf(const v1::Graph& graph) {
  std::array<uint64_t, std::tuple_size_v<Sketch>> least;
  least.fill(std::numeric_limits<uint64_t>::max());
  const auto add = [&](uint64_t feature) {
    for (size_t i = 0; i < least.size(); ++i) {
      least[i] = std::min(least[i], Mix(feature + (i + 1) * 0x9e3779b97f4a7c15));
    }
  };
  std::unordered_map<std::string, uint64_t> names;
  std::vector<uint64_t> of_node;
  const int first = graph.inputs_size() + graph.constants_size();  // the first node's value
  for (const v1::Node& node : graph.nodes()) {
    const auto [name, is_new] = names.try_emplace(absl::StrCat(node.op(), ".", node.overload()));
    if (is_new) name->second = Digest64(name->first);
    const uint64_t own = name->second;
    add(own);
    ForEachValue(node.args(), [&](uint32_t value) {
      const size_t producer = static_cast<size_t>(value) - static_cast<size_t>(first);
      if (producer < of_node.size()) add(Mix(own) ^ of_node[producer]);
    });
    of_node.push_back(own);
  }
  Sketch sketch;
  std::transform(least.begin(), least.end(), sketch.begin(),
                 [](uint64_t value) { return static_cast<uint16_t>(value); });
  return sketch;
}

}  // namespace

KeyParts TakeApart(const v1::Graph& graph, const ProgramKey& key) {
  Encoder operators, literals, inputs, constants, results;
  inputs.WholeList(graph.symbols());
  operators.Number(static_cast<uint64_t>(graph.inputs_size()));
  for (const v1::Input& input : graph.inputs()) EncodeInput(input, inputs);
  operators.Number(static_cast<uint64_t>(graph.constants_size()));
  for (const v1::Constant& constant : graph.constants()) EncodeConstant(constant, constants);
  for (const v1::Node& node : graph.nodes()) {
    operators.Text(node.op()).Text(node.overload());
    EncodeArguments(node.args(), operators, literals);
    results.WholeList(node.outputs());
  }
  EncodeArguments(graph.outputs(), operators, literals);

  KeyParts parts;
  const auto set = [&](KeyPart part, const std::string& bytes) {
    parts.digests[static_cast<size_t>(part)] = Digest64(bytes);
  };
  set(KeyPart::kOperators, operators.Take());
  set(KeyPart::kLiterals, literals.Take());
  set(KeyPart::kInputs, inputs.Take());
  set(KeyPart::kConstants, constants.Take());
  set(KeyPart::kResults, results.Take());
  set(KeyPart::kTarget, key.target);
  set(KeyPart::kOptions, key.options);
  set(KeyPart::kToolchain, key.toolchain);
  set(KeyPart::kCompiler, Encoder()
                              .Text(key.compiler_build)
                              .Number(key.compiler_version)
                              .Number(key.artifact_format)
                              .Take());
  parts.sketch = SketchOf(graph);
  return parts;
}

store::ProgramTraits KeyParts::ToTraits() const {
  store::ProgramTraits traits;
  constexpr size_t kOfGraph = static_cast<size_t>(KeyPart::kTarget);
  uint64_t graph = 0;
  for (size_t i = 0; i < kOfGraph; ++i) graph = Mix(graph ^ digests[i]);
  static_assert(std::tuple_size_v<decltype(traits.numbers)> == 2 + kBands);
  traits.numbers[0] = graph;
  traits.numbers[1] = (*this)[KeyPart::kOperators];
  for (size_t band = 0; band < kBands; ++band) {
    uint64_t rows = 0;
    for (size_t row = 0; row < kRows; ++row) rows = rows << 16 | sketch[band * kRows + row];
    traits.numbers[2 + band] = rows;
  }
  traits.compared.push_back(kForm);
  traits.compared.append(reinterpret_cast<const char*>(digests.data()), sizeof digests);
  traits.compared.append(reinterpret_cast<const char*>(sketch.data()), sizeof sketch);
  return traits;
}

std::optional<KeyParts> KeyParts::FromTraits(std::string_view compared) {
  if (compared.size() != kCompared || compared[0] != kForm) return std::nullopt;
  KeyParts parts;
  std::memcpy(parts.digests.data(), compared.data() + 1, sizeof parts.digests);
  std::memcpy(parts.sketch.data(), compared.data() + 1 + sizeof parts.digests, sizeof parts.sketch);
  return parts;
}

double Similarity(const KeyParts& a, const KeyParts& b) {
  size_t equal = 0;
  for (size_t i = 0; i < a.sketch.size(); ++i) equal += a.sketch[i] == b.sketch[i];
  return static_cast<double>(equal) / static_cast<double>(a.sketch.size());
}

}  // namespace tensord::server
