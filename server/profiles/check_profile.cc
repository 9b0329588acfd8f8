// SPDX-License-Identifier: Apache-2.0
#include "server/profiles/check_profile.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <string>

#include "base/sha256.h"
#include "server/traces/check_spans.h"

namespace tensord::server {
namespace {

constexpr size_t kLongestText = 256, kLongestOperator = 64;

using Times = google::protobuf::RepeatedField<uint64_t>;

// One for each call, and none longer than a profile takes.
bool AreTimes(const Times& times, int calls) {
  return times.size() == calls && std::all_of(times.begin(), times.end(),
                                              [](uint64_t time) { return time <= kLongestTime; });
}

// Why a row cannot be of the profile; empty: it can.
absl::string_view FaultOf(const v1::ProfileRow& row, const v1::Profile& profile) {
  if (row.program() >= static_cast<uint32_t>(profile.programs_size())) return "is of no program";
  if (row.kind() == v1::ProfileRow::KIND_UNSPECIFIED || !v1::ProfileRow::Kind_IsValid(row.kind())) {
    return "is of no kind";
  }
  if (row.name().empty()) return "has no name";
  if (row.operators_size() > kMostRowOperators) return "has too many operators";
  if (row.lines_size() > kMostRowOperators) return "has too many lines";
  for (const uint32_t line : row.lines()) {
    if (line >= static_cast<uint32_t>(profile.lines_size()))
      return "is of a line that is not there";
  }
  if (!AreTimes(row.nanoseconds(), profile.calls_size())) return "has not one time for each call";
  return "";
}

absl::Status CheckCount(const char* what, int count, int most) {
  if (count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a profile of ", count, " ", what, "; at most ", most, " are kept"));
}

}  // namespace

absl::Status CheckProfile(const v1::Profile& profile) {
  if (profile.calls().empty()) return absl::InvalidArgumentError("a profile of no call");
  TENSORD_RETURN_IF_ERROR(CheckCount("calls", profile.calls_size(), kMostProfiledCalls));
  TENSORD_RETURN_IF_ERROR(CheckCount("programs", profile.programs_size(), kMostProfiledPrograms));
  TENSORD_RETURN_IF_ERROR(CheckCount("steps", profile.rows_size(), kMostProfileRows));
  TENSORD_RETURN_IF_ERROR(CheckCount("lines", profile.lines_size(), kMostProfileRows));
  if (!AreTimes(profile.calls(), profile.calls_size()) ||
      !AreTimes(profile.gaps(), profile.calls_size())) {
    return absl::InvalidArgumentError("there is not one time for each call");
  }
  for (const v1::ProfiledProgram& program : profile.programs()) {
    if (!program.key().empty() && program.key().size() != kSha256Bytes) {
      return absl::InvalidArgumentError("a program's key has 32 bytes");
    }
  }
  for (int i = 0; i < profile.rows_size(); ++i) {
    if (const absl::string_view fault = FaultOf(profile.rows(i), profile); !fault.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("step ", i, " of the profile ", fault));
    }
  }
  return absl::OkStatus();
}

void Shorten(v1::Profile* profile) {
  const auto cut = [](std::string* text, size_t longest) {
    if (text->size() > longest) *text = Cut(*text, longest);
  };
  cut(profile->mutable_function(), kLongestText);
  cut(profile->mutable_device(), kLongestText);
  for (v1::ProfiledProgram& program : *profile->mutable_programs()) {
    cut(program.mutable_label(), kLongestText);
  }
  for (v1::SourceLine& line : *profile->mutable_lines()) {
    cut(line.mutable_source(), kLongestText);
    cut(line.mutable_text(), kLongestText);
  }
  for (v1::ProfileRow& row : *profile->mutable_rows()) {
    cut(row.mutable_name(), kLongestText);
    for (std::string& op : *row.mutable_operators()) cut(&op, kLongestOperator);
  }
}

}  // namespace tensord::server
