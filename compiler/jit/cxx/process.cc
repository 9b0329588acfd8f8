#include "compiler/jit/cxx/process.h"

#include <absl/strings/str_cat.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace tensord::jit {
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

std::vector<std::string> Environment(const std::string& folder) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    // What would change the compiler's output, language or where it leaves its files.
    bool keep = true;
    for (const char* name :
         {"LC_", "LANG=", "LANGUAGE=", "TMPDIR=", "CPATH=", "CPLUS_INCLUDE_PATH=",
          "GCC_EXEC_PREFIX=", "COMPILER_PATH=", "LIBRARY_PATH=", "DEPENDENCIES_OUTPUT="})
      keep = keep && !text.starts_with(name);
    if (keep) result.emplace_back(text);
  }
  result.push_back("LC_ALL=C");
  result.push_back("TMPDIR=" + folder);
  return result;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& s : strings) result.push_back(const_cast<char*>(s.c_str()));
  result.push_back(nullptr);
  return result;
}

// vfork rather than posix_spawn: the child must ask for the signal of its parent's death before it
// becomes the compiler, and copying a large worker's page tables is not wanted. Only
// async-signal-safe calls happen in the child; its errno comes back through the shared memory.
pid_t Start(char* const* argv, char* const* envp, const char* folder, int null_fd, int output_fd,
            volatile int* error) {
  const pid_t parent = getpid();
  const pid_t pid = vfork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before prctl
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(null_fd, 0) >= 0 && dup2(output_fd, 1) >= 0 && dup2(output_fd, 2) >= 0 &&
      chdir(folder) == 0)
    execve(argv[0], argv, envp);
  *error = errno;
  _exit(127);
}

}  // namespace

absl::StatusOr<ProcessResult> RunProcess(const std::vector<std::string>& command,
                                         const std::string& folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return absl::InternalError(absl::StrCat("cannot make a pipe: ", strerror(errno)));
  Fd read_end(ends[0]), write_end(ends[1]), null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::vector<std::string> environment = Environment(folder);
  const std::vector<char*> argv = Pointers(command), envp = Pointers(environment);
  volatile int error = 0;
  const pid_t pid =
      Start(argv.data(), envp.data(), folder.c_str(), null.get(), write_end.get(), &error);
  if (pid < 0) return absl::InternalError(absl::StrCat("cannot fork: ", strerror(errno)));
  write_end.Close();

  ProcessResult result;
  char buffer[4096];
  for (;;) {
    const ssize_t n = read(read_end.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    result.output.append(buffer, n);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (error != 0) {
    const std::string message = absl::StrCat("cannot run ", command[0], ": ", strerror(error));
    return error == ENOENT || error == EACCES ? absl::NotFoundError(message)
                                              : absl::InternalError(message);
  }
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace tensord::jit
