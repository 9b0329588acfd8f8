// SPDX-License-Identifier: Apache-2.0
// Small facts about a program, for lists. The store does not interpret them.
#ifndef TENSORD_SERVER_STORE_PROGRAM_FACTS_H_
#define TENSORD_SERVER_STORE_PROGRAM_FACTS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace tensord::store {

struct ProgramFacts {
  std::string label;
  std::string target;
  uint32_t nodes = 0;
  uint32_t kernels = 0;
  uint32_t externs = 0;
  uint64_t compile_nanoseconds = 0;
};

// As they stand in a signed record, from which the index has them again when it is lost.
std::string Encode(const ProgramFacts& facts);
// What is missing is empty or 0.
ProgramFacts DecodeProgramFacts(std::string_view bytes);

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_PROGRAM_FACTS_H_
