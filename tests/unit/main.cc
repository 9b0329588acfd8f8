// SPDX-License-Identifier: Apache-2.0
// The main function of all programs of tests.
//
//   PROGRAM [--file=NAME_test.cc] [GOOGLETEST'S FLAGS]
//
// --file: only the tests of that source file, unless --gtest_filter chooses. None is an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace {

// The filter of the suites that `file` has. Suites are whole: a name for each of some thousand
// tests would be looked through for each of them.
std::string FilterOf(std::string_view file) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::string filter;
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    if (suite.total_test_count() == 0) continue;
    if (std::filesystem::path(suite.GetTestInfo(0)->file()).filename() != file) continue;
    filter += (filter.empty() ? "" : ":") + std::string(suite.name()) + ".*";
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  constexpr std::string_view kFile = "--file=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kFile)) continue;
    const std::string filter = FilterOf(argument.substr(kFile.size()));
    if (filter.empty()) {
      std::fprintf(stderr, "%s has no tests of %s\n", argv[0], argv[i] + kFile.size());
      return 1;
    }
    if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, filter);
  }
  return RUN_ALL_TESTS();
}
