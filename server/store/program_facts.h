// SPDX-License-Identifier: Apache-2.0
// Small facts about a program, for lists. The store does not interpret them.
#ifndef TENSORD_SERVER_STORE_PROGRAM_FACTS_H_
#define TENSORD_SERVER_STORE_PROGRAM_FACTS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tensord::store {

// What a program's key was made of, as far as it takes to find programs like another one.
struct ProgramTraits {
  // Programs that have one of them in common, at the same place, are likely to be alike.
  std::array<uint64_t, 5> numbers{};
  // What tells how alike they are, in its maker's form. Empty: not known; the record is of a daemon
  // that did not say it.
  std::string compared;
};

struct ProgramFacts {
  std::string label;
  std::string target;
  uint32_t nodes = 0;
  uint32_t kernels = 0;
  uint32_t externs = 0;
  uint64_t compile_nanoseconds = 0;
  ProgramTraits traits = {};
};

// As they stand in a signed record, from which the index has them again when it is lost.
std::string Encode(const ProgramFacts& facts);
// What is missing is empty or 0.
ProgramFacts DecodeProgramFacts(std::string_view bytes);
// The one of them that each look-up counts, without reading the others.
uint64_t CompileNanosecondsOf(std::string_view bytes);

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_PROGRAM_FACTS_H_
