// SPDX-License-Identifier: Apache-2.0
#include "server/store/program_facts.h"

#include <gtest/gtest.h>

#include <string>

namespace tensord::store {
namespace program_facts_test {

ProgramFacts Facts() {
  ProgramFacts facts{"a label\nof two lines", "cpu avx2", 5, 2, 1, 1000};
  facts.traits = {{1, 2, 3, 4, ~uint64_t{0}}, std::string("\0 bytes\n", 8)};
  return facts;
}

TEST(ProgramFactsTest, AreReadBack) {
  const ProgramFacts facts = Facts(), read = DecodeProgramFacts(Encode(facts));
  EXPECT_EQ(read.label, facts.label);
  EXPECT_EQ(read.target, facts.target);
  EXPECT_EQ(read.nodes, facts.nodes);
  EXPECT_EQ(read.kernels, facts.kernels);
  EXPECT_EQ(read.externs, facts.externs);
  EXPECT_EQ(read.compile_nanoseconds, facts.compile_nanoseconds);
  EXPECT_EQ(read.traits.numbers, facts.traits.numbers);
  EXPECT_EQ(read.traits.compared, facts.traits.compared);
  EXPECT_EQ(CompileNanosecondsOf(Encode(facts)), 1000u);
}

TEST(ProgramFactsTest, ThoseOfOlderDaemonsHaveNoTraits) {
  const std::string written = "5\n2\n1\n1000\ncpu avx2\nforward";
  const ProgramFacts read = DecodeProgramFacts(written);
  EXPECT_EQ(read.label, "forward");
  EXPECT_EQ(read.nodes, 5u);
  EXPECT_EQ(read.compile_nanoseconds, 1000u);
  EXPECT_EQ(read.traits.compared, "");
  EXPECT_EQ(CompileNanosecondsOf(written), 1000u);
  EXPECT_EQ(Encode(read), written);
}

TEST(ProgramFactsTest, WhatIsMalformedIsMissing) {
  for (const char* written :
       {"", "traits", "traits ", "traits 1,2 00\n5", "traits 1,2,3,4,5 xyz\n"}) {
    EXPECT_EQ(DecodeProgramFacts(written).traits.compared, "") << written;
    EXPECT_EQ(CompileNanosecondsOf(written), 0u) << written;
  }
  EXPECT_EQ(DecodeProgramFacts("traits 1,2 00\n5").nodes, 5u);
}

}  // namespace program_facts_test
}  // namespace tensord::store
