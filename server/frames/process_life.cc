// SPDX-License-Identifier: Apache-2.0
#include "server/frames/process_life.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace tensord::server {
namespace {

// 0: it is none, or has ended.
uint64_t StartOf(uint32_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // "pid (name) state ...", and the name may hold anything; proc(5) numbers its fields from 1.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 > text.size()) return 0;
  const std::vector<std::string> fields = absl::StrSplit(text.substr(name_end + 2), ' ');
  constexpr size_t kState = 3 - 3, kStartTime = 22 - 3;
  uint64_t started = 0;
  if (fields.size() <= kStartTime || fields[kState] == "Z" || fields[kState] == "X" ||
      !absl::SimpleAtoi(fields[kStartTime], &started)) {
    return 0;
  }
  return started;
}

}  // namespace

ProcessLife ProcessLife::Of(uint32_t pid, const std::string& host) {
  char name[256] = "";
  const bool is_here = host.empty() || (gethostname(name, sizeof name - 1) == 0 && host == name);
  return {pid, host, pid == 0 || !is_here ? 0 : StartOf(pid)};
}

bool ProcessLife::MayLive() const { return started == 0 || StartOf(pid) == started; }

bool ProcessLife::Is(const ProcessLife& other) const {
  return pid != 0 && pid == other.pid && host == other.host && started == other.started;
}

}  // namespace tensord::server
