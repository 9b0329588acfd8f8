// SPDX-License-Identifier: Apache-2.0
// Starts other programs: the one place that forks. No shell; a child never outlives the thread that
// started it. And clears up after processes that were killed.
#ifndef TENSORD_BASE_PROCESS_H_
#define TENSORD_BASE_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tensord {

// A descriptor of this process and its number in the child.
struct PassedFd {
  int here;
  int child;
};

struct Command {
  std::vector<std::string> argv;  // the first word is the program's path; PATH is not searched
  std::optional<std::vector<std::string>> environment;  // "NAME=value"; none: this process's
  std::string folder;                                   // to run in; empty: this process's
  // What the child keeps open; it reads nothing on its standard input unless 0 is among them. At
  // most kMaxPassedFds.
  std::vector<PassedFd> fds;
  // Sent to the child when the calling *thread* ends, which is how the kernel defines a parent's
  // death.
  int death_signal = SIGKILL;
  bool own_group = false;     // leads a process group of its own
  uint64_t memory_bytes = 0;  // address space of the child and of each of its children; 0: no limit
};

inline constexpr int kMaxPassedFds = 8;

// Starts `command`; the caller reaps the child. It has default signal handlers, leaves no core file
// and gains no privileges. NotFound: there is no such program, or it is not one. Internal: it
// cannot be started. Thread-safe.
absl::StatusOr<pid_t> Spawn(const Command& command);

// The path of a program: a name is looked for in PATH, as a shell does, and a path made absolute.
// Empty: there is no such program, or it may not be executed.
std::string FindProgram(const std::string& name);

// Removes the folders of `parent` that processes which are no more left there: those with a name of
// `prefix`, the process's number, and nothing or something behind a hyphen.
void RemoveFoldersOfTheDead(const std::string& parent, std::string_view prefix);

struct ProcessResult {
  int exit_code = 0;   // 128 + the signal's number when a signal ended it
  std::string output;  // stdout and stderr together
};

// Starts `command` with its output collected (`fds` must be empty) and waits for it. Errors:
// Spawn's.
absl::StatusOr<ProcessResult> RunProcess(Command command);

}  // namespace tensord

#endif  // TENSORD_BASE_PROCESS_H_
