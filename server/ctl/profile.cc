// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <string>

#include "server/ctl/commands.h"
#include "server/ctl/output.h"
#include "server/ctl/view/profile_view.h"

namespace tensord::server {
namespace {

// What a table shows where it goes to a terminal or a pipe; a file has all.
constexpr size_t kShownRows = 40;

std::string TextOf(const v1::Profile& profile, const ProfileCommand& command, bool json) {
  if (json || command.format == "json") return JsonText(profile);
  if (command.format == "speedscope") return Speedscope(profile) + "\n";
  if (command.format == "folded") return FoldedStacks(profile);
  return ProfileTable(profile, command.file.empty() ? kShownRows : 0);
}

int List(const Client& client) {
  v1::GetProfilesRequest request;
  request.set_without_rows(true);
  v1::Profiles profiles;
  if (const int code = Ask(client, request, &profiles); code != kExitOk) return code;
  if (client.json) return PrintJson(profiles), kExitOk;
  if (profiles.profiles().empty()) {
    Print(
        "nothing was profiled since the daemon's start: tensord.profile(function, ...) in a job\n");
    return kExitOk;
  }
  Print(ProfileList(profiles, std::time(nullptr)));
  return kExitOk;
}

}  // namespace

int Profile(const Client& client, const ProfileCommand& command) {
  if (command.AsksForAll()) return List(client);
  v1::GetProfilesRequest request;
  if (!command.key.empty() && !ReadKey(command.key, request.mutable_key_prefix())) {
    return kExitUsage;
  }
  request.set_id(command.id);
  request.set_job(command.job);
  request.set_pid(command.pid);
  request.set_limit(1);
  v1::Profiles profiles;
  if (const int code = Ask(client, request, &profiles); code != kExitOk) return code;
  if (profiles.profiles().empty()) {
    std::fprintf(stderr, "tensorctl: nothing was profiled since the daemon's start\n");
    return kExitError;
  }
  const v1::StoredProfile& stored = profiles.profiles(0);
  if (const int code = WriteText(command.file, TextOf(stored.profile(), command, client.json));
      code != kExitOk || command.file.empty()) {
    return code;
  }
  Print(fmt::format("{}: {} steps{}\n", command.file, stored.profile().rows_size(),
                    command.format == "speedscope" ? "; https://www.speedscope.app opens it" : ""));
  return kExitOk;
}

}  // namespace tensord::server
