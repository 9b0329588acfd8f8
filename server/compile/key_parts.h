// SPDX-License-Identifier: Apache-2.0
// A program key taken apart: a digest for each of its parts, and a sketch of its operators. They
// are kept with every program, so that a miss finds the stored key that is nearest and says where
// it differs, without a look at any graph but its own.
//
// For people and statistics alone. Nothing is served by them, so they are short: two parts that
// differ have the same digest once in 2^64.
#ifndef TENSORD_SERVER_COMPILE_KEY_PARTS_H_
#define TENSORD_SERVER_COMPILE_KEY_PARTS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/program/keys.h"
#include "server/store/program_facts.h"

namespace tensord::server {

// All that is in a program key is in one of them (keys_test.cc); the first six are the graph's.
enum class KeyPart : uint8_t {
  kOperators,  // which are called, and which values each takes
  kLiterals,   // their other arguments: numbers, truth values, types, texts
  kInputs,     // with the symbols of their sizes
  kConstants,
  kResults,  // types and layouts of what operators give; follows from the inputs as a rule
  kTarget,
  kOptions,
  kToolchain,
  kCompiler,  // its build and versions
};
inline constexpr size_t kKeyParts = 9;

// MinHash (Broder 1997) over operators and pairs of an operator and one that it reads from: of two
// sketches about as many numbers agree as the graphs have of these in common.
using Sketch = std::array<uint16_t, 16>;

struct KeyParts {
  std::array<uint64_t, kKeyParts> digests{};
  Sketch sketch{};

  uint64_t operator[](KeyPart part) const { return digests[static_cast<size_t>(part)]; }

  // As a store keeps them: the whole graph, its operators, and three bands of the sketch are what
  // near programs have in common.
  store::ProgramTraits ToTraits() const;
  // Of what a store gives; nothing: it is not known, or of another form.
  static std::optional<KeyParts> FromTraits(std::string_view compared);
};

KeyParts TakeApart(const v1::Graph& graph, const ProgramKey& key);

// From 0 to 1, in steps of a sixteenth.
double Similarity(const KeyParts& a, const KeyParts& b);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_KEY_PARTS_H_
