// SPDX-License-Identifier: Apache-2.0
#include "server/store/program_facts.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <vector>

namespace tensord::store {

// Numbers first, a line each; a label may hold anything, and is last.
std::string Encode(const ProgramFacts& facts) {
  return absl::StrCat(facts.nodes, "\n", facts.kernels, "\n", facts.externs, "\n",
                      facts.compile_nanoseconds, "\n", facts.target, "\n", facts.label);
}

ProgramFacts DecodeProgramFacts(std::string_view bytes) {
  constexpr int kLines = 6;
  std::vector<std::string> lines =
      absl::StrSplit(std::string(bytes), absl::MaxSplits('\n', kLines - 1));
  lines.resize(kLines);
  ProgramFacts facts;
  const auto read = [](const std::string& text, auto* number) {
    if (!absl::SimpleAtoi(text, number)) *number = 0;
  };
  read(lines[0], &facts.nodes);
  read(lines[1], &facts.kernels);
  read(lines[2], &facts.externs);
  read(lines[3], &facts.compile_nanoseconds);
  facts.target = lines[4];
  facts.label = lines[5];
  return facts;
}

}  // namespace tensord::store
