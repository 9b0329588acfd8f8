// SPDX-License-Identifier: Apache-2.0
#include "server/pool/group_memory.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tensord::server {
namespace {

// Of a file of /proc, which has no size; empty: it cannot be read.
std::string ReadProc(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  close(fd);
  return text;
}

// Of lines such as "RssAnon:	    1234 kB".
uint64_t OwnMemory(pid_t pid) {
  constexpr absl::string_view kFields[] = {"RssAnon:", "RssShmem:", "VmSwap:"};
  uint64_t bytes = 0;
  for (absl::string_view line :
       absl::StrSplit(ReadProc(absl::StrCat("/proc/", pid, "/status")), '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    uint64_t kilobytes = 0;
    if (words.size() == 3 &&
        std::find(std::begin(kFields), std::end(kFields), words[0]) != std::end(kFields) &&
        absl::SimpleAtoi(words[1], &kilobytes)) {
      bytes += kilobytes << 10;
    }
  }
  return bytes;
}

// Those that threads of the process have started.
std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  const std::string folder = absl::StrCat("/proc/", pid, "/task");
  DIR* const tasks = opendir(folder.c_str());
  if (tasks == nullptr) return children;
  while (const dirent* task = readdir(tasks)) {
    if (task->d_name[0] == '.') continue;
    const std::string text = ReadProc(absl::StrCat(folder, "/", task->d_name, "/children"));
    for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
      pid_t child = 0;
      if (absl::SimpleAtoi(word, &child)) children.push_back(child);
    }
  }
  closedir(tasks);
  return children;
}

}  // namespace

uint64_t MemoryBelow(pid_t root) {
  uint64_t bytes = 0;
  std::vector<pid_t> left = {root};
  while (!left.empty()) {
    const pid_t pid = left.back();
    left.pop_back();
    bytes += OwnMemory(pid);
    const std::vector<pid_t> children = ChildrenOf(pid);
    left.insert(left.end(), children.begin(), children.end());
  }
  return bytes;
}

bool MemoryIsPromisedStrictly() {
  return ReadProc("/proc/sys/vm/overcommit_memory").starts_with("2");
}

}  // namespace tensord::server
