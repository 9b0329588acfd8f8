// SPDX-License-Identifier: Apache-2.0
#include "server/store/program_facts.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <charconv>
#include <vector>

#include "base/sha256.h"

namespace tensord::store {
namespace {

// What facts with traits begin with; those without, of older daemons, begin with a number.
constexpr std::string_view kWithTraits = "traits ";

// The first line, without its end; takes it off.
std::string_view TakeLine(std::string_view* bytes) {
  const size_t end = bytes->find('\n');
  const std::string_view line = bytes->substr(0, end);
  bytes->remove_prefix(end == std::string_view::npos ? bytes->size() : end + 1);
  return line;
}

template <class Number>
void Read(const std::string& text, Number* number) {
  if (!absl::SimpleAtoi(text, number)) *number = 0;
}

// "12,34,56,78,90 HEX". What is malformed is left out as a whole.
ProgramTraits ReadTraits(std::string_view line) {
  ProgramTraits traits;
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(std::string(line), absl::MaxSplits(' ', 1));
  const std::vector<std::string> numbers = absl::StrSplit(parts.first, ',');
  if (numbers.size() != traits.numbers.size()) return {};
  for (size_t i = 0; i < numbers.size(); ++i) Read(numbers[i], &traits.numbers[i]);
  traits.compared = FromHex(parts.second);
  return traits;
}

std::string WriteTraits(const ProgramTraits& traits) {
  if (traits.compared.empty()) return "";
  return absl::StrCat(std::string(kWithTraits), absl::StrJoin(traits.numbers, ","), " ",
                      ToHex(traits.compared), "\n");
}

}  // namespace

// Traits and numbers first, a line each; a label may hold anything, and is last.
std::string Encode(const ProgramFacts& facts) {
  return absl::StrCat(WriteTraits(facts.traits), facts.nodes, "\n", facts.kernels, "\n",
                      facts.externs, "\n", facts.compile_nanoseconds, "\n", facts.target, "\n",
                      facts.label);
}

ProgramFacts DecodeProgramFacts(std::string_view bytes) {
  constexpr int kLines = 6;
  ProgramFacts facts;
  if (bytes.starts_with(kWithTraits)) {
    facts.traits = ReadTraits(TakeLine(&bytes).substr(kWithTraits.size()));
  }
  std::vector<std::string> lines =
      absl::StrSplit(std::string(bytes), absl::MaxSplits('\n', kLines - 1));
  lines.resize(kLines);
  Read(lines[0], &facts.nodes);
  Read(lines[1], &facts.kernels);
  Read(lines[2], &facts.externs);
  Read(lines[3], &facts.compile_nanoseconds);
  facts.target = lines[4];
  facts.label = lines[5];
  return facts;
}

uint64_t CompileNanosecondsOf(std::string_view bytes) {
  constexpr int kLinesBefore = 3;
  if (bytes.starts_with(kWithTraits)) TakeLine(&bytes);
  for (int i = 0; i < kLinesBefore; ++i) TakeLine(&bytes);
  const std::string_view line = TakeLine(&bytes);
  uint64_t nanoseconds = 0;
  std::from_chars(line.data(), line.data() + line.size(), nanoseconds);
  return nanoseconds;
}

}  // namespace tensord::store
