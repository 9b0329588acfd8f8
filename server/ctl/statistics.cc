// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include "server/ctl/commands.h"
#include "server/ctl/view/quantile.h"
#include "server/ctl/view/table.h"
#include "tensord/v1/service.pb.h"

namespace tensord::server {
namespace {

int GetStats(const Client& client, v1::Stats* stats) {
  return Ask(client, v1::GetStatsRequest(), stats);
}

std::string Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-" : fmt::format("{:.1f} %", 100.0 * part / whole);
}

// A field's number in the unit that its name tells (stats.proto).
std::string HumanNumber(const std::string& name, uint64_t value) {
  if (absl::StrContains(name, "nanoseconds")) return HumanNanoseconds(value);
  if (absl::StrContains(name, "seconds")) return HumanAge(static_cast<int64_t>(value));
  if (absl::StrContains(name, "bytes")) return HumanBytes(value);
  return absl::StrCat(value);
}

// Every number that is not one of the outcomes of requests, by its field's name.
Table Counters(const v1::Stats& stats) {
  static const auto* const outcomes = new std::set<std::string_view>{
      "requests", "hits", "compiled", "joined", "failed", "rejected"};
  const google::protobuf::Descriptor& fields = *v1::Stats::descriptor();
  const google::protobuf::Reflection& reflection = *v1::Stats::GetReflection();
  Table table({"", ">"});
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *fields.field(i);
    if (field.cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_UINT64) continue;
    if (outcomes->count(field.name()) != 0) continue;
    table.Add({absl::StrReplaceAll(field.name(), {{"_", " "}}),
               HumanNumber(field.name(), reflection.GetUInt64(stats, &field))});
  }
  return table;
}

}  // namespace

int Status(const Client& client) {
  v1::Stats s;
  if (const int code = GetStats(client, &s); code != kExitOk) return code;
  if (client.json) return PrintJson(s), kExitOk;
  Table table({"tensord " + s.version(), "running"});
  table.Add({"pid", absl::StrCat(s.pid())});
  table.Add({"up", HumanAge(static_cast<int64_t>(s.uptime_seconds()))});
  table.Add({"address", client.address});
  table.Add({"memory", HumanBytes(s.resident_bytes())});
  table.Add({"workers", fmt::format("{} running", s.workers())});
  table.Add({"in flight", absl::StrCat(s.in_flight())});
  table.Add({"store", s.store()});
  table.Add(
      {"stored",
       fmt::format("{} programs, {} frames, {} of {}", s.programs_stored(), s.frames_stored(),
                   HumanBytes(s.bytes_stored()),
                   s.store_limit_bytes() == 0 ? "no limit" : HumanBytes(s.store_limit_bytes()))});
  if (!s.store_problem().empty()) {
    table.Add({"WARNING", s.store_problem()});
  }
  if (!s.fleet().empty()) {
    table.Add({"fleet", s.fleet()});
    table.Add({"fleet answers", s.fleet_breaker_open() ? "no" : "yes, as far as it was asked"});
    if (!s.fleet_problem().empty()) table.Add({"fleet problem", s.fleet_problem()});
  }
  const v1::ToolchainList toolchains = GetToolchains(client);
  for (const v1::ToolchainState& toolchain : toolchains.toolchains()) {
    table.Add({toolchain.name(), toolchain.found().empty() ? "not usable: " + toolchain.problem()
                                                           : toolchain.found()});
  }
  const v1::ListJobsReply jobs = GetJobs(client);
  for (const v1::BridgeCount& one : jobs.bridges()) {
    table.Add({"jobs' bridge", fmt::format("{} ({} {})", one.bridge(), one.processes(),
                                           one.processes() == 1 ? "process" : "processes")});
  }
  Print(table.ToString());
  return kExitOk;
}

int Stats(const Client& client) {
  v1::Stats s;
  if (const int code = GetStats(client, &s); code != kExitOk) return code;
  if (client.json) return PrintJson(s), kExitOk;
  Table counts({"requests", ">count", ">share", ">half within", ">99 % within"});
  counts.Add({"all", absl::StrCat(s.requests()), "", "", ""});
  const std::tuple<const char*, uint64_t, const char*> kinds[] = {
      {"found", s.hits(), "hit"},          {"compiled", s.compiled(), "compiled"},
      {"joined", s.joined(), "joined"},    {"failed", s.failed(), "failed"},
      {"rejected", s.rejected(), nullptr},
  };
  for (const auto& [name, count, outcome] : kinds) {
    const bool timed = outcome != nullptr;
    counts.Add({name, absl::StrCat(count), Ratio(count, s.requests()),
                timed ? HumanSeconds(Quantile(s, outcome, 0.5)) : "",
                timed ? HumanSeconds(Quantile(s, outcome, 0.99)) : ""});
  }
  Table means({"", ">"});
  means.Add(
      {"mean look-up", s.hits() == 0 ? "-" : HumanNanoseconds(s.lookup_nanoseconds() / s.hits())});
  means.Add({"share of kernels reused",
             Ratio(s.kernels_reused(), s.kernels_compiled() + s.kernels_reused())});
  Table misses({"compiled, as the program was", ">count"});
  for (const v1::MissCount& miss : s.misses()) {
    if (miss.count() > 0) misses.Add({miss.reason(), absl::StrCat(miss.count())});
  }
  Table stages({"stage", ">total", ">per compile"});
  for (const v1::StageTime& stage : s.stages()) {
    stages.Add({stage.stage(), HumanNanoseconds(stage.nanoseconds()),
                HumanNanoseconds(stage.nanoseconds() / std::max<uint64_t>(1, s.compiled()))});
  }
  Print(absl::StrCat(counts.ToString(), means.ToString(), Counters(s).ToString(), "\n",
                     misses.ToString(), "\n", stages.ToString()));
  return kExitOk;
}

}  // namespace tensord::server
