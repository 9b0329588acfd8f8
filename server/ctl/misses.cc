// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/str_cat.h>
#include <fmt/format.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"
#include "server/ctl/commands.h"
#include "server/ctl/output.h"
#include "server/ctl/view/table.h"

namespace tensord::server {
namespace {

std::string Shown(const std::string& key) { return ToHex(key).substr(0, kShownDigits); }

// Names come from graphs and jobs.
void PrintLine(const std::string& line) { Print(WithoutControls(line) + "\n"); }

// "3 times, 5 s ago by process 12 of train"
std::string Occasion(uint64_t count, int64_t last_unix, const v1::Caller& caller) {
  return fmt::format("{}, {} ago by process {}{}",
                     count == 1 ? "once" : absl::StrCat(count, " times"),
                     HumanAge(time(nullptr) - last_unix), caller.pid(),
                     caller.job().empty() ? "" : " of " + caller.job());
}

std::string NameOf(const v1::FrameMiss& miss) {
  if (!miss.has_code()) return "(no longer stored)";
  const v1::CodeIdentity& code = miss.code();
  return absl::StrCat(code.module(), code.module().empty() ? "" : " ", code.qualified_name());
}

void PrintMiss(const v1::FrameMiss& miss) {
  PrintLine(absl::StrCat(Shown(miss.key()), "  ", NameOf(miss)));
  PrintLine("  expected  " + miss.guard());
  if (!miss.found().empty()) PrintLine("  found     " + miss.found());
  PrintLine("  " + Occasion(miss.count(), miss.last_unix(), miss.caller()));
}

// What kMissReasons of server/statistics/miss_reasons.h mean.
constexpr std::pair<std::string_view, const char*> kSentences[] = {
    {"new", "nothing that is stored is near"},
    {"unknown", "nothing is near of what is known; older daemons stored programs without saying"},
    {"evicted", "it was evicted (store_limit)"},
    {"lost", "its files were damaged or deleted"},
    {"graph", "another graph"},
    {"inputs", "other inputs"},
    {"target", "another target"},
    {"options", "other options"},
    {"toolchain", "another C++ compiler or NVRTC"},
    {"compiler", "another build of tensord"},
};

std::string SentenceOf(const std::string& reason) {
  for (const auto& [name, sentence] : kSentences) {
    if (name == reason) return sentence;
  }
  return reason;  // a newer daemon's
}

void PrintDifference(const v1::KeyDifference& difference) {
  PrintLine("  " + difference.field());
  if (difference.wanted().empty() && difference.stored().empty()) return;
  PrintLine("    wanted  " + difference.wanted());
  PrintLine("    stored  " + difference.stored());
}

void PrintMiss(const v1::ProgramMiss& miss) {
  PrintLine(fmt::format("{}  program '{}' of {} operators: {}", Shown(miss.key()), miss.label(),
                        miss.nodes(), SentenceOf(miss.reason())));
  if (!miss.nearest().empty()) {
    PrintLine(fmt::format("  the nearest is {}, with {:.0f} % of its operators; what differs:",
                          Shown(miss.nearest()), 100 * miss.similarity()));
  }
  for (const v1::KeyDifference& difference : miss.differences()) PrintDifference(difference);
  if (miss.more_differences() > 0) PrintLine(fmt::format("  and {} more", miss.more_differences()));
  PrintLine("  " + Occasion(miss.count(), miss.last_unix(), miss.caller()));
}

}  // namespace

int ExplainMiss(const Client& client, const std::string& key, const std::string& job,
                uint32_t limit) {
  v1::ListMissesRequest request;
  request.set_limit(limit);
  request.set_job(job);
  if (!key.empty() && !ReadKey(key, request.mutable_key_prefix())) return kExitUsage;
  v1::ListMissesReply reply;
  if (const int code = Ask(client, request, &reply); code != kExitOk) return code;
  if (client.json) return PrintJson(reply), kExitOk;
  if (reply.misses().empty()) Print("no frame has failed to serve\n");
  for (const v1::FrameMiss& miss : reply.misses()) PrintMiss(miss);
  if (reply.programs().empty()) Print("no program was compiled\n");
  for (const v1::ProgramMiss& miss : reply.programs()) PrintMiss(miss);
  return kExitOk;
}

}  // namespace tensord::server
