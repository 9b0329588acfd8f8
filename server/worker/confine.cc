// SPDX-License-Identifier: Apache-2.0
#include "server/worker/confine.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/process.h"
#include "base/sha256.h"

namespace tensord::server {
namespace {

namespace fs = std::filesystem;

// ---- Files

constexpr uint64_t kRead =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
// Of the second and the third version, which headers may not know: renaming between folders, and
// truncation.
constexpr uint64_t kRefer = LANDLOCK_ACCESS_FS_MAKE_SYM << 1, kTruncate = kRefer << 1;
// Of a file; a folder takes all that the kernel knows.
constexpr uint64_t kFileRights = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
                                 LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;

// Every right of the first version and those two. Devices' own calls, of a later one, are left as
// they are.
uint64_t HandledRights(long version) {
  constexpr uint64_t kFirst = kRefer - 1;
  return kFirst | (version >= 2 ? kRefer : 0) | (version >= 3 ? kTruncate : 0);
}

void Allow(int rules, const std::string& path, uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return;
  const absl::Cleanup close_it = [fd] { close(fd); };
  struct stat info;
  if (fstat(fd, &info) != 0) return;
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = S_ISDIR(info.st_mode) ? rights : rights & kFileRights;
  rule.parent_fd = fd;
  syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

// Empty: done. Otherwise why not.
std::string ConfineFiles(const Walls& walls) {
  const long version =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 0) return absl::StrCat("the kernel has no Landlock: ", strerror(errno));
  landlock_ruleset_attr attributes = {};
  attributes.handled_access_fs = HandledRights(version);
  const int rules =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0));
  if (rules < 0) return absl::StrCat("Landlock: ", strerror(errno));
  const absl::Cleanup close_it = [rules] { close(rules); };
  for (const std::string& path : walls.readable) Allow(rules, path, kRead);
  for (const std::string& path : walls.writable) {
    Allow(rules, path, attributes.handled_access_fs);
  }
  if (syscall(SYS_landlock_restrict_self, rules, 0) != 0) {
    return absl::StrCat("Landlock: ", strerror(errno));
  }
  return "";
}

// ---- System calls

// What compilers have no use for: the network, other processes' memory, the kernel's configuration.
constexpr int kForbidden[] = {
    SYS_socket,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_getfd,
    SYS_truncate,  // which kernels before Landlock's third version let through
    SYS_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_move_mount,
    SYS_open_tree,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_sethostname,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
};
#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "seccomp's name of this architecture is not known"
#endif

constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                    CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

class Filter {
 public:
  void Load(size_t offset) {
    lines_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
  }
  // The lower half of a call's argument.
  void LoadArgument(size_t number) {
    Load(offsetof(seccomp_data, args) + number * sizeof(uint64_t));
  }
  void Return(uint32_t answer) { lines_.push_back(BPF_STMT(BPF_RET | BPF_K, answer)); }
  // What follows, of `count` lines, is for what is loaded where `test` holds.
  void If(uint16_t test, uint32_t value, uint8_t count) {
    lines_.push_back(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K), value, 0, count));
  }
  void Unless(uint16_t test, uint32_t value, uint8_t count) {
    lines_.push_back(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K), value, count, 0));
  }
  std::string Install() {
    const sock_fprog filter = {static_cast<unsigned short>(lines_.size()), lines_.data()};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0) return "";
    return absl::StrCat("seccomp: ", strerror(errno));
  }

 private:
  std::vector<sock_filter> lines_;
};

std::string ConfineSystemCalls() {
  Filter filter;
  filter.Load(offsetof(seccomp_data, arch));
  filter.Unless(BPF_JEQ, kArchitecture, 1);
  filter.Return(kRefuse);
  filter.Load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
  // The numbers of x32, which are those of 64 bits with this bit.
  constexpr uint32_t kX32 = 0x40000000;
  filter.If(BPF_JGE, kX32, 1);
  filter.Return(kRefuse);
#endif
  for (const int call : kForbidden) {
    filter.If(BPF_JEQ, static_cast<uint32_t>(call), 1);
    filter.Return(kRefuse);
  }
  // Its flags lie in memory; who asks for it does without.
  filter.If(BPF_JEQ, SYS_clone3, 1);
  filter.Return(SECCOMP_RET_ERRNO | ENOSYS);
  filter.If(BPF_JEQ, SYS_clone, 4);
  filter.LoadArgument(0);
  filter.If(BPF_JSET, kNewNamespaces, 1);
  filter.Return(kRefuse);
  filter.Return(SECCOMP_RET_ALLOW);
  // What types into the terminal that a daemon may have.
  filter.If(BPF_JEQ, SYS_ioctl, 5);
  filter.LoadArgument(1);
  for (const uint32_t request : {TIOCSTI, TIOCLINUX}) {
    filter.If(BPF_JEQ, request, 1);
    filter.Return(kRefuse);
  }
  filter.Return(SECCOMP_RET_ALLOW);
  return filter.Install();
}

// ---- Capabilities

std::string DropCapabilities() {
  // Where we may; who has none needs no bound.
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    prctl(PR_CAPBSET_DROP, capability);
  }
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {}, held[2] = {};
  // A service manager that took them all may have forbidden the next call too.
  if (syscall(SYS_capget, &header, held) == 0 && std::memcmp(held, none, sizeof none) == 0)
    return "";
  if (syscall(SYS_capset, &header, none) == 0) return "";
  return absl::StrCat("capset: ", strerror(errno));
}

// ---- What compiling needs

// The installation that a program belongs to: the folder above its `bin`, unless that is somebody's
// home or the root; then its own folder.
std::string InstallationOf(const fs::path& program) {
  const fs::path folder = program.parent_path(), above = folder.parent_path();
  const char* home = std::getenv("HOME");
  const bool is_shared = above == above.root_path() || (home != nullptr && above == home) ||
                         folder.filename() != "bin";
  return is_shared ? folder : above;
}

void AddList(const char* variable, std::vector<std::string>& paths) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return;
  for (const absl::string_view path : absl::StrSplit(value, ':', absl::SkipEmpty())) {
    paths.emplace_back(path);
  }
}

enum class Probe : int { kWorks = 0, kFails = 1, kUntried = 2 };

// Whether the compiler can make a shared library, within the walls unless they are null.
Probe CompilerWorks(const Walls* walls, const std::string& program,
                    const std::string& work_folder) {
  const pid_t child = fork();
  if (child < 0) return Probe::kUntried;
  if (child == 0) {
    const auto end = [](Probe probe) { _exit(static_cast<int>(probe)); };
    if (walls != nullptr) Confine(*walls);
    std::string folder = absl::StrCat(work_folder, "/tmp-", getpid(), "-probe");
    if (mkdir(folder.c_str(), 0700) != 0) end(Probe::kUntried);
    std::ofstream source(folder + "/probe.cc");
    source << "#include <cstdint>\nint64_t f() { return 1; }\n";
    source.close();
    Command command;
    command.argv = {program, "-shared", "-fPIC", "probe.cc", "-o", "probe.so"};
    command.folder = folder;
    const auto result = RunProcess(command);
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    if (!source || !result.ok()) end(Probe::kUntried);
    end(result->exit_code == 0 ? Probe::kWorks : Probe::kFails);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return Probe::kUntried;
  return static_cast<Probe>(WEXITSTATUS(status));
}

// Names the walls and the compiler's file as it is now.
std::string ProbeName(const Walls& walls, const std::string& program) {
  Sha256Fields fields;
  for (const std::string& path : walls.readable) fields.Add(path);
  struct stat info = {};
  stat(program.c_str(), &info);
  fields.Add(program).Add(absl::StrCat(info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec));
  return "walls-" + ToHex(fields.Finish()).substr(0, 16);
}

}  // namespace

Confinement Confine(const Walls& walls) {
  Confinement result;
  const auto add = [&result](const char* what, const std::string& problem) {
    if (problem.empty()) {
      result.in_force.emplace_back(what);
    } else {
      result.missing.push_back(absl::StrCat(what, " (", problem, ")"));
    }
  };
  // Filters want it, and no program that is executed gains anything.
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  add("files", ConfineFiles(walls));
  add("capabilities", DropCapabilities());
  add("system calls", ConfineSystemCalls());
  return result;
}

Walls WallsFor(const std::string& cxx, const std::string& nvrtc,
               const std::vector<std::string>& work_folders) {
  Walls walls;
  walls.readable = {"/usr", "/lib",  "/lib32", "/lib64", "/bin", "/sbin",     "/etc",
                    "/opt", "/proc", "/sys",   "/dev",   "/nix", "/gnu/store"};
  for (const char* variable : {"LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"}) {
    AddList(variable, walls.readable);
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  walls.readable.push_back(InstallationOf(self));
  if (const std::string program = FindProgram(cxx); !program.empty()) {
    walls.readable.push_back(InstallationOf(program));
    walls.readable.push_back(InstallationOf(fs::canonical(program, error)));
  }
  if (!nvrtc.empty()) {
    const fs::path place = fs::canonical(nvrtc, error);
    walls.readable.push_back(fs::is_directory(place, error) ? place : place.parent_path());
  }
  walls.writable = work_folders;
  walls.writable.push_back("/dev/null");
  return walls;
}

std::string Describe(const Confinement& confinement) {
  std::string text = absl::StrJoin(confinement.in_force, ", ");
  if (!confinement.missing.empty()) {
    absl::StrAppend(&text, text.empty() ? "" : "; ",
                    "missing: ", absl::StrJoin(confinement.missing, ", "));
  }
  return text;
}

Confinement ConfineWorker(const std::string& cxx, const std::string& nvrtc,
                          const std::vector<std::string>& work_folders) {
  const std::string& work_folder = work_folders.front();
  setenv("TMPDIR", work_folder.c_str(), 1);
  const Walls walls = WallsFor(cxx, nvrtc, work_folders);
  const std::string program = FindProgram(cxx);
  const std::string known = absl::StrCat(work_folder, "/", ProbeName(walls, program));
  if (!program.empty() && access(known.c_str(), F_OK) != 0) {
    const auto within = [&] { return CompilerWorks(&walls, program, work_folder); };
    const Probe probe = within();
    if (probe == Probe::kWorks) std::ofstream(known) << program << "\n";
    // Nobody is let out for a full disk, or for what somebody within has left in the folder: the
    // compiler must have failed within, work without, and fail within again.
    if (probe == Probe::kFails && CompilerWorks(nullptr, program, work_folder) == Probe::kWorks &&
        within() == Probe::kFails) {
      return {{}, {absl::StrCat("everything (", program, " does not work within)")}};
    }
  }
  return Confine(walls);
}

}  // namespace tensord::server
