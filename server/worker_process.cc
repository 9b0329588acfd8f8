#include "server/worker_process.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "server/framing.h"

namespace tensord::server {
namespace {

// Runs in the child between fork and exec, in a process that had threads: only system calls, no
// allocation. Writes errno to `report` and exits when something fails.
[[noreturn]] void RunChild(const char* path, char* const* argv, int socket, int report,
                           uint64_t memory_bytes, pid_t parent) {
  const auto fail = [&] {
    const int error = errno;
    // Nothing to do about a failed write: the parent sees an empty report and a dead child.
    if (write(report, &error, sizeof error) < 0) _exit(126);
    _exit(127);
  };
  setpgid(0, 0);
  // TERM, not KILL: the worker's handler takes its whole group along.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);

  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (memory_bytes != 0) {
    const rlimit memory{memory_bytes, memory_bytes};
    setrlimit(RLIMIT_AS, &memory);
  }
  sigset_t empty;
  sigemptyset(&empty);
  sigprocmask(SIG_SETMASK, &empty, nullptr);
  signal(SIGPIPE, SIG_DFL);

  // Out of the way of the numbers that are about to be used.
  const int high_socket = fcntl(socket, F_DUPFD, 10);
  const int high_report = fcntl(report, F_DUPFD, 10);
  const int null = open("/dev/null", O_RDONLY);
  if (high_socket < 0 || high_report < 0 || null < 0) fail();
  report = high_report;
  constexpr int kReportFd = kWorkerFd + 1;
  if (dup2(null, 0) < 0 || dup2(2, 1) < 0 || dup2(high_socket, kWorkerFd) < 0 ||
      dup2(high_report, kReportFd) < 0) {
    fail();
  }
  report = kReportFd;
  fcntl(kReportFd, F_SETFD, FD_CLOEXEC);
  close_range(kReportFd + 1, ~0U, 0);
  execv(path, argv);
  fail();
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const WorkerCommand& command) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a socket pair");
  }
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    const int error = errno;
    close(sockets[0]);
    close(sockets[1]);
    return absl::ErrnoToStatus(error, "cannot make a pipe");
  }
  std::vector<char*> argv;
  argv.push_back(const_cast<char*>(command.path.c_str()));
  for (const std::string& arg : command.args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  const int fork_error = errno;
  if (pid == 0) {
    RunChild(command.path.c_str(), argv.data(), sockets[1], report[1], command.memory_bytes,
             parent);
  }
  close(sockets[1]);
  close(report[1]);
  absl::Cleanup close_report = [&] { close(report[0]); };
  if (pid < 0) {
    close(sockets[0]);
    return absl::ErrnoToStatus(fork_error, "cannot fork a worker");
  }
  setpgid(pid, pid);  // whoever of the two is first
  std::unique_ptr<WorkerProcess> process(new WorkerProcess(pid, sockets[0]));
  int exec_error = 0;
  ssize_t got;
  do {
    got = read(report[0], &exec_error, sizeof exec_error);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof exec_error) {
    return absl::InternalError(
        absl::StrCat("cannot run the worker ", command.path, ": ", strerror(exec_error)));
  }
  return process;
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

absl::StatusOr<v1::WorkerReply> WorkerProcess::Call(const v1::WorkerRequest& request,
                                                    absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  v1::WorkerReply reply;
  absl::Status status = WriteFrame(fd_, request, deadline);
  if (absl::IsInvalidArgument(status)) return status;  // nothing was sent
  if (status.ok()) status = ReadFrame(fd_, &reply, deadline);
  if (status.ok()) return reply;
  healthy_ = false;
  if (absl::IsDeadlineExceeded(status)) {
    Kill();
    return absl::InternalError(absl::StrCat("the worker took longer than ",
                                            absl::FormatDuration(limit), " and was ended"));
  }
  if (absl::IsOutOfRange(status)) return Died();
  Kill();
  return absl::InternalError(absl::StrCat("cannot talk to the worker: ", status.message()));
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
  if (WIFSIGNALED(status)) {
    return absl::InternalError(absl::StrCat("the worker crashed: ", strsignal(WTERMSIG(status))));
  }
  return absl::InternalError(absl::StrCat("the worker exited with ", WEXITSTATUS(status)));
}

}  // namespace tensord::server
