// SPDX-License-Identifier: Apache-2.0
#include "compiler/jit/backend.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <vector>

namespace tensord::jit {
namespace {

constexpr size_t kOutputLines = 40;

std::string LastLines(const std::string& text, size_t count) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - count);
  return absl::StrJoin(lines, "\n");
}

}  // namespace

std::string FailureText(const std::string& compiler, const v1::KernelUnit& unit,
                        const std::string& code, const std::string& command,
                        const std::string& output) {
  return absl::StrCat(compiler, " failed on kernel '", unit.description(), "' (", code, "):\n",
                      command, "\n", LastLines(output, kOutputLines));
}

}  // namespace tensord::jit
