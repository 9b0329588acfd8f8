// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/view/profile_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/sha256.h"

namespace tensord::server {
namespace {

constexpr std::pair<v1::ProfileRow::Kind, const char*> kKinds[] = {
    {v1::ProfileRow::KERNEL, "kernels"},
    {v1::ProfileRow::LIBRARY_CALL, "library calls"},
    {v1::ProfileRow::ZERO_FILL, "zero fills"},
    {v1::ProfileRow::MEMORY, "memory"},
};
constexpr size_t kKeyDigits = 8;

// Of all rows of a kind, by call.
std::vector<uint64_t> TimesOf(const v1::Profile& profile, v1::ProfileRow::Kind kind) {
  std::vector<uint64_t> times(static_cast<size_t>(profile.calls_size()), 0);
  for (const v1::ProfileRow& row : profile.rows()) {
    if (row.kind() != kind) continue;
    for (int i = 0; i < std::min(row.nanoseconds_size(), profile.calls_size()); ++i) {
      times[static_cast<size_t>(i)] += row.nanoseconds(i);
    }
  }
  return times;
}

}  // namespace

uint64_t MedianOf(std::vector<uint64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int TypicalCall(const v1::Profile& profile) {
  std::vector<std::pair<uint64_t, int>> order;
  for (int i = 0; i < profile.calls_size(); ++i) order.emplace_back(profile.calls(i), i);
  std::sort(order.begin(), order.end());
  return order.empty() ? -1 : order[(order.size() - 1) / 2].second;
}

std::vector<ProfilePart> PartsOf(const v1::Profile& profile) {
  std::vector<ProfilePart> parts;
  if (profile.calls().empty()) return parts;
  const auto call = static_cast<size_t>(TypicalCall(profile));
  std::vector<uint64_t> outside(profile.calls().begin(), profile.calls().end());
  const auto add = [&](const char* name, std::vector<uint64_t> times, bool in_steps) {
    times.resize(outside.size(), 0);
    for (size_t i = 0; i < times.size(); ++i) outside[i] -= std::min(outside[i], times[i]);
    if (std::any_of(times.begin(), times.end(), [](uint64_t time) { return time > 0; })) {
      parts.push_back({name, times[call], in_steps});
    }
  };
  for (const auto& [kind, name] : kKinds) add(name, TimesOf(profile, kind), true);
  add("gaps", {profile.gaps().begin(), profile.gaps().end()}, false);
  add("outside of programs", outside, false);
  return parts;
}

bool Overlap(const v1::Profile& profile) {
  constexpr double kRoundedPart = 0.02, kRounded = 20'000;  // events are rounded one by one
  std::vector<uint64_t> within(profile.gaps().begin(), profile.gaps().end());
  within.resize(static_cast<size_t>(profile.calls_size()), 0);
  for (const auto& [kind, name] : kKinds) {
    const std::vector<uint64_t> times = TimesOf(profile, kind);
    for (size_t i = 0; i < within.size(); ++i) within[i] += times[i];
  }
  for (size_t i = 0; i < within.size(); ++i) {
    const auto whole = static_cast<double>(profile.calls(static_cast<int>(i)));
    if (static_cast<double>(within[i]) > (1 + kRoundedPart) * whole + kRounded) return true;
  }
  return false;
}

uint64_t SumOf(const v1::ProfileRow& row) {
  return std::accumulate(row.nanoseconds().begin(), row.nanoseconds().end(), uint64_t{0});
}

RowNumbers NumbersOf(const v1::Profile& profile, const v1::ProfileRow& row) {
  RowNumbers numbers;
  numbers.runs = static_cast<double>(row.runs()) / std::max(1, profile.calls_size());
  numbers.nanoseconds = MedianOf(row.nanoseconds());
  const double each =
      static_cast<double>(row.bytes_read()) + static_cast<double>(row.bytes_written());
  numbers.bytes = each * numbers.runs;
  const auto all_runs = static_cast<double>(row.runs());
  const double seconds = static_cast<double>(std::max<uint64_t>(1, SumOf(row))) / 1e9;
  numbers.bytes_per_second = each * all_runs / seconds;
  if (profile.copy_rate() > 0 && numbers.bytes > 0) {
    numbers.limit = numbers.bytes_per_second / static_cast<double>(profile.copy_rate());
  }
  numbers.flops_per_second = static_cast<double>(row.flops()) * all_runs / seconds;
  return numbers;
}

std::string ProgramName(const v1::ProfiledProgram& program) {
  const std::string label = program.label().empty() ? "program" : program.label();
  const std::string digits = ToHex(program.key()).substr(0, kKeyDigits);
  return digits.empty() ? label : label + " " + digits;
}

std::string StepName(const v1::ProfileRow& row) {
  const bool is_said =
      row.operators_size() == 1 && row.name().substr(row.name().rfind(':') + 1) == row.operators(0);
  if (row.operators().empty() || is_said) return row.name();
  return fmt::format("{} ({})", row.name(), fmt::join(row.operators(), ", "));
}

std::string LineOf(const v1::Profile& profile, const v1::ProfileRow& row) {
  if (row.lines().empty()) return "";
  return profile.lines(static_cast<int>(row.lines(0))).source();
}

}  // namespace tensord::server
