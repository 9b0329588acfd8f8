// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/view/profile_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "server/ctl/view/profile_numbers.h"
#include "server/ctl/view/table.h"

namespace tensord::server {
namespace {

using nlohmann::json;

constexpr size_t kLongestStep = 60;

std::string FunctionOf(const v1::Profile& profile) {
  return profile.function().empty() ? "profile" : WithoutControls(profile.function());
}

// "5 calls of 1.2 ms (1.1 ms to 1.4 ms)"
std::string CallsOf(const v1::Profile& profile) {
  const auto& calls = profile.calls();
  if (calls.empty()) return "no calls";
  std::string text = fmt::format("{} calls of {}", calls.size(), HumanNanoseconds(MedianOf(calls)));
  if (calls.size() == 1) return text;
  const auto [least, most] = std::minmax_element(calls.begin(), calls.end());
  return text + fmt::format(" ({} to {})", HumanNanoseconds(*least), HumanNanoseconds(*most));
}

std::string Heading(const v1::Profile& profile) {
  std::string text = fmt::format("{}: {}", FunctionOf(profile), CallsOf(profile));
  if (!profile.device().empty()) text += "; " + WithoutControls(profile.device());
  if (profile.copy_rate() > 0) {
    text +=
        fmt::format("; a copy moves {:.1f} GB/s", static_cast<double>(profile.copy_rate()) / 1e9);
  }
  text += "\n";
  if (!profile.calls().empty() && profile.rows().empty()) {
    text += "no compiled program ran in them\n";
  }
  if (profile.dropped_runs() > 0) {
    text += fmt::format("without {} runs of programs, of which times are missing\n",
                        profile.dropped_runs());
  }
  if (Overlap(profile)) text += "parts take longer than the call: programs ran at the same time\n";
  return text;
}

std::string Share(uint64_t nanoseconds, const v1::Profile& profile) {
  const auto whole = static_cast<double>(std::max<uint64_t>(1, MedianOf(profile.calls())));
  return fmt::format("{:.1f} %", 100 * static_cast<double>(nanoseconds) / whole);
}

std::string Shortened(const std::string& text) {
  return text.size() <= kLongestStep ? text : Cut(text, kLongestStep - 3) + "...";
}

std::vector<std::string> Cells(const v1::Profile& profile, const v1::ProfileRow& row) {
  const RowNumbers numbers = NumbersOf(profile, row);
  const auto [least, most] =
      std::minmax_element(row.nanoseconds().begin(), row.nanoseconds().end());
  const bool timed = !row.nanoseconds().empty(), moves = numbers.bytes > 0;
  std::string line = LineOf(profile, row);
  if (row.lines_size() > 1) line += fmt::format(" and {} more", row.lines_size() - 1);
  return {
      HumanNanoseconds(numbers.nanoseconds),
      Share(numbers.nanoseconds, profile),
      fmt::format("{:g}", numbers.runs),
      HumanNanoseconds(timed ? *least : 0),
      HumanNanoseconds(timed ? *most : 0),
      moves ? HumanMeanBytes(numbers.bytes) : "-",
      moves ? fmt::format("{:.1f}", numbers.bytes_per_second / 1e9) : "-",
      numbers.limit ? fmt::format("{:.0f} %", 100 * *numbers.limit) : "-",
      numbers.flops_per_second > 0 ? fmt::format("{:.1f}", numbers.flops_per_second / 1e9) : "-",
      Shortened(StepName(row)),
      ProgramName(profile.programs(static_cast<int>(row.program()))),
      line};
}

// By their sums, which an older client does not go by.
std::vector<const v1::ProfileRow*> LongestFirst(const v1::Profile& profile) {
  std::vector<std::pair<uint64_t, const v1::ProfileRow*>> order;
  for (const v1::ProfileRow& row : profile.rows()) order.emplace_back(SumOf(row), &row);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& one, const auto& other) { return one.first > other.first; });
  std::vector<const v1::ProfileRow*> rows;
  for (const auto& [sum, row] : order) rows.push_back(row);
  return rows;
}

}  // namespace

std::string ProfileTable(const v1::Profile& profile, size_t most_rows) {
  Table parts({">time", ">share", "part"});
  for (const ProfilePart& part : PartsOf(profile)) {
    parts.Add({HumanNanoseconds(part.nanoseconds), Share(part.nanoseconds, profile), part.name});
  }
  std::string text = Heading(profile) + "\n" + parts.ToString();
  if (profile.rows().empty()) return text;
  Table steps({">time", ">share", ">runs", ">least", ">most", ">moves", ">GB/s", ">limit",
               ">GFLOP/s", "step", "program", "line"});
  const std::vector<const v1::ProfileRow*> rows = LongestFirst(profile);
  const size_t shown = most_rows == 0 ? rows.size() : std::min(rows.size(), most_rows);
  for (size_t i = 0; i < shown; ++i) steps.Add(Cells(profile, *rows[i]));
  text += "\n" + steps.ToString();
  if (shown < rows.size()) text += fmt::format("and {} more steps\n", rows.size() - shown);
  return text;
}

std::string ProfileList(const v1::Profiles& profiles, int64_t now_unix) {
  Table table({">number", "age", "function", ">call", ">calls", "device", "job", ">process"});
  for (const v1::StoredProfile& stored : profiles.profiles()) {
    const v1::Profile& profile = stored.profile();
    table.Add({fmt::format("{}", stored.id()), HumanAge(now_unix - stored.put_unix()),
               FunctionOf(profile), HumanNanoseconds(MedianOf(profile.calls())),
               fmt::format("{}", profile.calls_size()), profile.device(), stored.caller().job(),
               fmt::format("{}", stored.caller().pid())});
  }
  return table.ToString();
}

std::vector<ProfileStack> StacksOf(const v1::Profile& profile) {
  std::vector<ProfileStack> stacks;
  const auto add = [&](std::vector<std::string> names, uint64_t nanoseconds) {
    if (nanoseconds == 0) return;
    for (std::string& name : names) name = WithoutControls(std::move(name));
    stacks.push_back({std::move(names), nanoseconds});
  };
  const std::string function = FunctionOf(profile);
  const int call = TypicalCall(profile);
  for (const v1::ProfileRow& row : profile.rows()) {
    if (call < 0 || call >= row.nanoseconds_size()) continue;
    std::vector<std::string> names = {
        function, ProgramName(profile.programs(static_cast<int>(row.program())))};
    if (const std::string line = LineOf(profile, row); !line.empty()) names.push_back(line);
    names.push_back(StepName(row));
    add(std::move(names), row.nanoseconds(call));
  }
  for (const ProfilePart& part : PartsOf(profile)) {
    if (!part.in_steps) add({function, part.name}, part.nanoseconds);
  }
  return stacks;
}

std::string FoldedStacks(const v1::Profile& profile) {
  std::string text;
  for (ProfileStack& stack : StacksOf(profile)) {
    for (std::string& name : stack.names) std::replace(name.begin(), name.end(), ';', ',');
    text += fmt::format("{} {}\n", fmt::join(stack.names, ";"), stack.nanoseconds);
  }
  return text;
}

std::string Speedscope(const v1::Profile& profile) {
  std::map<std::string, size_t> numbers;
  json frames = json::array(), samples = json::array(), weights = json::array();
  uint64_t whole = 0;
  for (const ProfileStack& stack : StacksOf(profile)) {
    json sample = json::array();
    for (const std::string& name : stack.names) {
      const auto [place, is_new] = numbers.try_emplace(name, numbers.size());
      if (is_new) frames.push_back({{"name", name}});
      sample.push_back(place->second);
    }
    samples.push_back(std::move(sample));
    weights.push_back(stack.nanoseconds);
    whole += stack.nanoseconds;
  }
  const std::string name = FunctionOf(profile);
  const json content = {{"$schema", "https://www.speedscope.app/file-format-schema.json"},
                        {"exporter", "tensord"},
                        {"name", name},
                        {"shared", {{"frames", std::move(frames)}}},
                        {"profiles",
                         {{{"type", "sampled"},
                           {"name", name},
                           {"unit", "nanoseconds"},
                           {"startValue", 0},
                           {"endValue", whole},
                           {"samples", std::move(samples)},
                           {"weights", std::move(weights)}}}}};
  return content.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace tensord::server
