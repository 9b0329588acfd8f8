// SPDX-License-Identifier: Apache-2.0
#include "server/profiles/check_profile.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"

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
  const auto& operators = row.operators();
  if (std::any_of(operators.begin(), operators.end(),
                  [](const std::string& op) { return op.empty(); })) {
    return "has an operator without a name";
  }
  if (row.runs() > kMostRuns) return "ran too often";
  if (std::max({row.bytes_read(), row.bytes_written(), row.flops()}) > kMostWork) {
    return "does too much";
  }
  for (const uint32_t line : row.lines()) {
    if (line >= static_cast<uint32_t>(profile.lines_size()))
      return "is of a line that is not there";
  }
  if (!AreTimes(row.nanoseconds(), profile.calls_size())) return "has not one time for each call";
  return "";
}

absl::Status CheckCount(const char* what, int64_t count, int most) {
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
  int64_t operators = 0, lines = 0;
  for (const v1::ProfileRow& row : profile.rows()) {
    operators += row.operators_size();
    lines += row.lines_size();
  }
  TENSORD_RETURN_IF_ERROR(CheckCount("operators", operators, kMostProfileOperators));
  TENSORD_RETURN_IF_ERROR(CheckCount("lines of steps", lines, kMostProfileOperators));
  if (profile.copy_rate() > kMostWork || profile.dropped_runs() > kMostRuns) {
    return absl::InvalidArgumentError("a copy rate or a number of runs is too large");
  }
  if (!AreTimes(profile.calls(), profile.calls_size()) ||
      !AreTimes(profile.gaps(), profile.calls_size())) {
    return absl::InvalidArgumentError("there is not one time for each call");
  }
  for (const v1::ProfiledProgram& program : profile.programs()) {
    if (!program.key().empty() && program.key().size() != kSha256Bytes) {
      return absl::InvalidArgumentError("a program's key has 32 bytes");
    }
    if (program.runs() > kMostRuns) return absl::InvalidArgumentError("a program ran too often");
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
    *text = Cut(WithoutControls(std::move(*text)), longest);
  };
  const auto trim = [](auto* list) {
    if (list->size() > kMostRowOperators) {
      list->erase(list->begin() + kMostRowOperators, list->end());
    }
  };
  cut(profile->mutable_function(), kLongestText);
  cut(profile->mutable_device(), kLongestText);
  for (v1::ProfiledProgram& program : *profile->mutable_programs()) {
    cut(program.mutable_label(), kLongestText);
  }
  for (v1::SourceLine& line : *profile->mutable_lines()) {
    // "model.py:7 in forward": the line is at the end.
    line.set_source(CutFront(WithoutControls(line.source()), kLongestText));
    cut(line.mutable_text(), kLongestText);
  }
  for (v1::ProfileRow& row : *profile->mutable_rows()) {
    cut(row.mutable_name(), kLongestText);
    trim(row.mutable_operators());
    trim(row.mutable_lines());
    for (std::string& op : *row.mutable_operators()) cut(&op, kLongestOperator);
  }
}

}  // namespace tensord::server
