// SPDX-License-Identifier: Apache-2.0
#include "server/store/frame_facts.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>

#include "base/sha256.h"

namespace tensord::store {

// Digests and numbers first, a line each; a qualified name may hold anything, and is last.
std::string Encode(const FrameFacts& facts) {
  std::string behind;
  for (const std::string& code : facts.behind) behind += ToHex(code);
  return absl::StrCat(ToHex(facts.code), "\n", ToHex(facts.environment), "\n", behind, "\n",
                      facts.guards, "\n", facts.graphs, "\n", facts.inlined, "\n",
                      absl::StrReplaceAll(facts.module, {{"\n", " "}}), "\n", facts.qualified_name);
}

absl::StatusOr<FrameFacts> DecodeFrameFacts(std::string_view bytes) {
  constexpr int kLines = 8;
  const std::vector<std::string> lines =
      absl::StrSplit(std::string(bytes), absl::MaxSplits('\n', kLines - 1));
  FrameFacts facts;
  if (lines.size() != kLines || !absl::SimpleAtoi(lines[3], &facts.guards) ||
      !absl::SimpleAtoi(lines[4], &facts.graphs) || !absl::SimpleAtoi(lines[5], &facts.inlined)) {
    return absl::DataLossError("the record does not say what a frame's does");
  }
  facts.code = FromHex(lines[0]);
  facts.environment = FromHex(lines[1]);
  const std::string behind = FromHex(lines[2]);
  if (facts.code.size() != kSha256Bytes || facts.environment.size() != kSha256Bytes ||
      behind.size() % kSha256Bytes != 0 || behind.size() * 2 != lines[2].size()) {
    return absl::DataLossError("the record of a frame has digests that are none");
  }
  for (size_t at = 0; at < behind.size(); at += kSha256Bytes) {
    facts.behind.push_back(behind.substr(at, kSha256Bytes));
  }
  facts.module = lines[6];
  facts.qualified_name = lines[7];
  return facts;
}

}  // namespace tensord::store
