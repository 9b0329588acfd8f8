// SPDX-License-Identifier: Apache-2.0
#include "server/pool/worker_process.h"

#include <absl/strings/str_cat.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "base/process.h"
#include "server/pool/group_memory.h"
#include "server/worker/framing.h"

namespace tensord::server {

namespace {

constexpr char kOverBudget[] = "tensord.over_budget";
constexpr char kCrash[] = "tensord.crash";

// How often a worker's memory is looked at, which takes a third of a millisecond.
constexpr absl::Duration kLook = absl::Milliseconds(100);

absl::Status Marked(const char* mark, const std::string& message) {
  absl::Status status = absl::InternalError(message);
  status.SetPayload(mark, absl::Cord());
  return status;
}

}  // namespace

bool IsOverBudget(const absl::Status& status) { return status.GetPayload(kOverBudget).has_value(); }

absl::Status OverBudget(const std::string& message) { return Marked(kOverBudget, message); }

bool IsCrash(const absl::Status& status) { return status.GetPayload(kCrash).has_value(); }

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const WorkerCommand& command) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a socket pair");
  }
  Command program;
  program.argv = {command.path};
  program.argv.insert(program.argv.end(), command.args.begin(), command.args.end());
  if (!command.environment.empty()) {
    program.environment = command.environment;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      program.environment->emplace_back(*variable);
    }
  }
  // What it prints is the daemon's to show, on standard error.
  program.fds = {
      {STDERR_FILENO, STDOUT_FILENO}, {STDERR_FILENO, STDERR_FILENO}, {sockets[1], kWorkerFd}};
  // TERM, not KILL: the worker's handler takes its whole group along.
  program.death_signal = SIGTERM;
  program.own_group = true;
  program.memory_bytes = command.memory_bytes;
  const absl::StatusOr<pid_t> pid = Spawn(program);
  close(sockets[1]);
  if (!pid.ok()) {
    close(sockets[0]);
    return absl::InternalError(absl::StrCat("the worker does not start: ", pid.status().message()));
  }
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(*pid, sockets[0], command.memory_bytes));
}

WorkerProcess::~WorkerProcess() {
  close(fd_);
  Kill();
  if (!reaped_) waitpid(pid_, nullptr, 0);
}

void WorkerProcess::Kill() const {
  // Until the worker is reaped its number is not given to anybody else; its group's members keep
  // the group's number taken.
  kill(-pid_, SIGKILL);
  if (!reaped_) kill(pid_, SIGKILL);
}

bool WorkerProcess::Alive() const {
  // An idle worker says nothing: anything readable is an end of file.
  pollfd idle{fd_, POLLIN, 0};
  return poll(&idle, 1, 0) == 0;
}

absl::StatusOr<v1::WorkerReply> WorkerProcess::Call(absl::Span<const std::string_view> request,
                                                    absl::Duration limit, const OnUnit& on_unit) {
  const absl::Time deadline = SteadyNow() + limit;
  v1::WorkerReply reply;
  absl::Status status = WriteFrame(fd_, request, deadline);
  if (absl::IsInvalidArgument(status)) return status;  // nothing was sent
  Looks looks{SteadyNow() + kLook};
  while (status.ok()) {
    status = AwaitWord(deadline, looks);
    if (status.ok()) status = ReadFrame(fd_, &reply, deadline);
    if (!status.ok()) break;
    if (reply.has_units_done()) {
      if (on_unit != nullptr) on_unit(reply.units_done());
      continue;
    }
    // What failed in the middle may have left anything behind.
    healthy_ = !reply.out_of_memory();
    return reply;
  }
  healthy_ = false;
  if (IsOverBudget(status)) {
    Kill();
    return status;
  }
  if (absl::IsDeadlineExceeded(status)) {
    Kill();
    return OverBudget(absl::StrCat("the worker took longer than ", absl::FormatDuration(limit),
                                   ", which was left to the request, and was ended"));
  }
  if (absl::IsOutOfRange(status)) return Died();
  Kill();
  return absl::InternalError(absl::StrCat("cannot talk to the worker: ", status.message()));
}

absl::Status WorkerProcess::AwaitWord(absl::Time deadline, Looks& looks) const {
  if (memory_bytes_ == 0) return AwaitReadable(fd_, deadline);
  // Twice in a row: see MemoryBelow on children that are about to become programs. Words that come
  // faster than looks do not put them off.
  constexpr int kLooks = 2;
  while (looks.above < kLooks) {
    const absl::Status status = AwaitReadable(fd_, std::min(deadline, looks.next));
    const absl::Time now = SteadyNow();
    if (now >= looks.next) {
      looks.above = MemoryBelow(pid_) > memory_bytes_ ? looks.above + 1 : 0;
      looks.next = now + kLook;
      if (looks.above >= kLooks) break;
    }
    if (!absl::IsDeadlineExceeded(status) || now >= deadline) return status;
  }
  return OverBudget(absl::StrCat("the worker and its compilers took more memory than the ",
                                 memory_bytes_,
                                 " bytes that a job may (job_memory), and were ended"));
}

bool WorkerProcess::HasOwnLimitOnly() const {
  return memory_bytes_ != 0 && !MemoryIsPromisedStrictly();
}

bool WorkerProcess::IsSlim() const {
  return memory_bytes_ == 0 || MemoryBelow(pid_) <= memory_bytes_ / 2;
}

absl::Status WorkerProcess::Died() {
  // The socket is closed: the process is ending or about to; make sure, then ask how.
  siginfo_t info{};
  for (int i = 0; i < 100 && info.si_pid == 0; ++i) {
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    if (info.si_pid == 0) usleep(10'000);
  }
  kill(-pid_, SIGKILL);
  int status = 0;
  if (waitpid(pid_, &status, 0) != pid_) return absl::InternalError("the worker died");
  reaped_ = true;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
    return OverBudget("the worker took more CPU time than a job may");
  }
  if (WIFSIGNALED(status)) {
    const std::string how = absl::StrCat("the worker crashed: ", strsignal(WTERMSIG(status)));
    // Killed: by the system, for want of memory, or by somebody.
    const bool from_outside = WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM;
    return from_outside ? absl::InternalError(how) : Marked(kCrash, how);
  }
  return absl::InternalError(absl::StrCat("the worker exited with ", WEXITSTATUS(status)));
}

}  // namespace tensord::server
