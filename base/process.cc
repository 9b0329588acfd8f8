// SPDX-License-Identifier: Apache-2.0
#include "base/process.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/check.h"

extern char** environ;

namespace tensord {
namespace {

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { Close(); }
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// What the child needs, made before it exists: it may not allocate.
struct ChildPlan {
  const Command* command;
  std::vector<char*> argv;
  std::vector<char*> environment;
  int null_fd;    // its standard input, unless one is passed
  int report_fd;  // takes errno when it cannot become the program; closed when it has
  pid_t parent;
};

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& s : strings) result.push_back(const_cast<char*>(s.c_str()));
  result.push_back(nullptr);
  return result;
}

// Puts every passed descriptor at its number and closes all others but `report`, which is moved
// behind them. Returns its number there, or -1.
int ArrangeFds(const ChildPlan& plan) {
  const std::vector<PassedFd>& fds = plan.command->fds;
  int last = 2;
  for (const PassedFd& fd : fds) last = std::max(last, fd.child);
  // First out of the way of the numbers that are about to be used.
  int high[kMaxPassedFds];
  for (size_t i = 0; i < fds.size(); ++i) {
    high[i] = fcntl(fds[i].here, F_DUPFD, last + 2);
    if (high[i] < 0) return -1;
  }
  const int high_null = fcntl(plan.null_fd, F_DUPFD, last + 2);
  const int high_report = fcntl(plan.report_fd, F_DUPFD, last + 2);
  if (high_null < 0 || high_report < 0 || dup2(high_null, 0) < 0) return -1;
  for (size_t i = 0; i < fds.size(); ++i) {
    if (dup2(high[i], fds[i].child) < 0) return -1;
  }
  const int report = last + 1;
  if (dup2(high_report, report) < 0) return -1;
  fcntl(report, F_SETFD, FD_CLOEXEC);
  close_range(static_cast<unsigned>(report) + 1, ~0U, 0);
  return report;
}

// Runs in the child between vfork and exec, in its parent's memory: only system calls.
[[noreturn]] void RunChild(const ChildPlan& plan) {
  const Command& command = *plan.command;
  int report = plan.report_fd;
  const auto fail = [&report] {
    const int error = errno;
    // Nothing to do about a failed write: the parent sees an empty report and a dead child.
    if (write(report, &error, sizeof error) < 0) _exit(126);
    _exit(127);
  };
  // Before signals are let through: the parent's handlers must not run here.
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &by_default, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  if (command.own_group) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, command.death_signal);
  if (getppid() != plan.parent) _exit(1);  // it died before prctl
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (command.memory_bytes != 0) {
    const rlimit memory{command.memory_bytes, command.memory_bytes};
    setrlimit(RLIMIT_AS, &memory);
  }
  if (!command.folder.empty() && chdir(command.folder.c_str()) != 0) fail();
  const int moved = ArrangeFds(plan);
  if (moved < 0) fail();
  report = moved;
  execve(plan.argv[0], plan.argv.data(), plan.environment.data());
  fail();
  _exit(127);
}

// vfork rather than fork: copying a large worker's page tables is not wanted. Rather than
// posix_spawn: the child must ask for the signal of its parent's death before it becomes the
// program. No signal is taken until the child is a program: its handler would run in this process's
// memory.
pid_t StartChild(const ChildPlan& plan) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t pid = vfork();
  if (pid == 0) RunChild(plan);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

// What the child reported: 0 when it has become the program.
int ReadReport(int fd) {
  int error = 0;
  ssize_t got;
  do {
    got = read(fd, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == sizeof error ? error : 0;
}

int Wait(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

absl::Status Failed(const char* what, int error) {
  return absl::InternalError(absl::StrCat(what, ": ", strerror(error)));
}

}  // namespace

std::string FindProgram(const std::string& name) {
  const auto runs = [](const std::string& path) {
    struct stat info;
    return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
           access(path.c_str(), X_OK) == 0;
  };
  if (absl::StrContains(name, '/')) {
    // A relative path means our folder, not the child's.
    char* const absolute = runs(name) ? realpath(name.c_str(), nullptr) : nullptr;
    if (absolute == nullptr) return "";
    const std::string result = absolute;
    free(absolute);
    return result;
  }
  const char* path = getenv("PATH");
  for (absl::string_view folder : absl::StrSplit(path ? path : "/usr/bin:/bin", ':')) {
    const std::string candidate = absl::StrCat(folder.empty() ? "." : folder, "/", name);
    if (!name.empty() && absl::StartsWith(candidate, "/") && runs(candidate)) return candidate;
  }
  return "";
}

void RemoveFoldersOfTheDead(const std::string& parent, std::string_view prefix) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix)) continue;
    const std::string number =
        name.substr(prefix.size(), name.find('-', prefix.size()) - prefix.size());
    pid_t pid = 0;
    if (!absl::SimpleAtoi(number, &pid) || pid <= 0) continue;
    if (kill(pid, 0) != 0 && errno == ESRCH) std::filesystem::remove_all(entry.path(), ignored);
  }
}

absl::StatusOr<pid_t> Spawn(const Command& command) {
  TENSORD_CHECK(!command.argv.empty() && command.fds.size() <= kMaxPassedFds);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return Failed("cannot make a pipe", errno);
  Fd read_end(report[0]), write_end(report[1]);
  Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null.get() < 0) return Failed("cannot open /dev/null", errno);

  ChildPlan plan{&command, Pointers(command.argv), {}, null.get(), write_end.get(), getpid()};
  if (command.environment) {
    plan.environment = Pointers(*command.environment);
  } else {
    char** end = environ;
    while (*end != nullptr) ++end;
    plan.environment.assign(environ, end + 1);
  }
  const pid_t pid = StartChild(plan);
  if (pid < 0) return Failed("cannot fork", errno);
  if (command.own_group) setpgid(pid, pid);  // under a vfork that is a fork, whoever is first
  write_end.Close();
  const int error = ReadReport(read_end.get());
  if (error == 0) return pid;
  Wait(pid);
  const std::string message = absl::StrCat("cannot run ", command.argv[0], ": ", strerror(error));
  return error == ENOENT || error == EACCES ? absl::NotFoundError(message)
                                            : absl::InternalError(message);
}

absl::StatusOr<ProcessResult> RunProcess(Command command) {
  TENSORD_CHECK(command.fds.empty());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Failed("cannot make a pipe", errno);
  Fd read_end(ends[0]), write_end(ends[1]);
  command.fds = {{write_end.get(), 1}, {write_end.get(), 2}};
  TENSORD_ASSIGN_OR_RETURN(const pid_t pid, Spawn(command));
  write_end.Close();

  ProcessResult result;
  char buffer[4096];
  for (;;) {
    const ssize_t n = read(read_end.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    result.output.append(buffer, static_cast<size_t>(n));
  }
  const int status = Wait(pid);
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace tensord
