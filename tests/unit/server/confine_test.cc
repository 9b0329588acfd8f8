// SPDX-License-Identifier: Apache-2.0
// The walls around workers, each tried from within by a process of its own.
#include "server/worker/confine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "base/process.h"

namespace tensord::server {
namespace confine_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class ConfineTest : public ::testing::Test {
 protected:
  ConfineTest() {
    char folder[] = "/var/tmp/tensord-confine-test.XXXXXX";
    root_ = mkdtemp(folder);
    work_ = root_ + "/work";
    fs::create_directory(work_);
    std::ofstream(root_ + "/secret") << "x";
  }
  ~ConfineTest() override { fs::remove_all(root_); }

  // The exit status of `run` within the walls.
  int Within(const std::function<int()>& run) {
    const auto confined = [&] {
      const Confinement found = ConfineWorker("c++", "", {work_});
      _exit(found.missing.empty() ? run() : 100);
    };
    EXPECT_EXIT(confined(), ::testing::ExitedWithCode(0), "");
    return 0;
  }
  static int Opens(const std::string& path, int flags) {
    return open(path.c_str(), flags | O_CLOEXEC, 0600) >= 0;
  }

  std::string root_, work_;
};

TEST_F(ConfineTest, FilesBelowTheWorkFolderAlone) {
  Within([this] {
    if (!Opens(work_ + "/new", O_WRONLY | O_CREAT)) return 1;
    if (!Opens("/usr/bin/env", O_RDONLY)) return 2;
    if (Opens(root_ + "/secret", O_RDONLY)) return 3;
    if (Opens(root_ + "/new", O_WRONLY | O_CREAT)) return 4;
    if (Opens("/tmp/tensord-confined", O_WRONLY | O_CREAT)) return 5;
    if (unlink((root_ + "/secret").c_str()) == 0) return 6;
    if (rename((work_ + "/new").c_str(), (root_ + "/new").c_str()) == 0) return 7;
    if (truncate((root_ + "/secret").c_str(), 0) == 0) return 8;
    if (!Opens(work_ + "/new", O_WRONLY | O_TRUNC) || !Opens("/dev/null", O_WRONLY | O_TRUNC)) {
      return 9;
    }
    return 0;
  });
  EXPECT_EQ(fs::file_size(root_ + "/secret"), 1u);
}

TEST_F(ConfineTest, NoNetworkAndNobodyElsesMemory) {
  Within([] {
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EPERM) return 1;
    if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM) return 2;
    if (ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == 0 || errno != EPERM) return 3;
    return 0;
  });
}

TEST_F(ConfineTest, NoNamespacesAndNobodysTerminal) {
  Within([] {
    if (unshare(CLONE_NEWUSER) == 0 || errno != EPERM) return 1;
    const long made = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, 0);
    if (made == 0) _exit(0);
    if (made > 0 || errno != EPERM) return 2;
    if (syscall(SYS_clone3, nullptr, 0) == 0 || errno != ENOSYS) return 3;
    const char typed = 'x';
    if (ioctl(0, TIOCSTI, &typed) == 0 || errno != EPERM) return 4;
    std::thread([] {}).join();
    return 0;
  });
}

TEST_F(ConfineTest, NoCapabilities) {
  Within([] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      const bool counts = line.rfind("CapEff:", 0) == 0 || line.rfind("CapPrm:", 0) == 0;
      if (counts && line.find_first_of("123456789abcdef", 7) != std::string::npos) return 1;
    }
    return 0;
  });
}

// As systemd does with CapabilityBoundingSet= and SystemCallFilter=~@privileged.
TEST_F(ConfineTest, NoneCanBeDroppedWhereAManagerTookAll) {
  const auto confined = [&] {
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2] = {};
    syscall(SYS_capset, &header, none);
    sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_capset, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter = {std::size(lines), lines};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) _exit(1);
    if (syscall(SYS_capset, &header, none) == 0) _exit(2);
    _exit(Confine({{"/usr"}, {work_}}).missing.empty() ? 0 : 3);
  };
  EXPECT_EXIT(confined(), ::testing::ExitedWithCode(0), "");
}

TEST_F(ConfineTest, CompilersWorkAndAreConfinedToo) {
  Within([this] {
    std::ofstream(work_ + "/a.cc") << "#include <vector>\nint f() { return 1; }\n";
    Command compiler;
    compiler.argv = {"/usr/bin/c++", "-shared", "-fPIC", "a.cc", "-o", "a.so"};
    compiler.folder = work_;
    const auto made = RunProcess(compiler);
    if (!made.ok() || made->exit_code != 0) return 1;
    Command thief;
    thief.argv = {"/bin/cat", root_ + "/secret"};
    const auto read = RunProcess(thief);
    return read.ok() && read->exit_code == 0 ? 2 : 0;
  });
}

// A compiler that writes where it may not is not walled in: kernels matter more.
TEST_F(ConfineTest, CompilerThatDoesNotWorkWithinIsLeftFree) {
  const std::string script = root_ + "/c++";
  std::ofstream(script) << "#!/bin/sh\necho x > " << root_
                        << "/written || exit 1\nexec c++ \"$@\"\n";
  fs::permissions(script, fs::perms::owner_all);
  const Confinement found = ConfineWorker(script, "", {work_});
  EXPECT_THAT(found.in_force, IsEmpty());
  EXPECT_THAT(Describe(found), StartsWith("missing: everything ("));
  EXPECT_THAT(Describe(found), HasSubstr("does not work within"));
}

// Neither one that works nowhere, nor a folder in which nothing can be tried, opens the walls.
TEST_F(ConfineTest, WhatCannotBeTriedIsWalledIn) {
  const std::string script = root_ + "/c++";
  std::ofstream(script) << "#!/bin/sh\nexit 1\n";
  fs::permissions(script, fs::perms::owner_all);
  const auto is_confined = [this](const std::string& cxx, const std::string& folder) {
    const auto confined = [&] {
      ConfineWorker(cxx, "", {folder});
      _exit(Opens(root_ + "/secret", O_WRONLY));
    };
    EXPECT_EXIT(confined(), ::testing::ExitedWithCode(0), "") << cxx;
  };
  is_confined(script, work_);
  is_confined("c++", root_ + "/none");
}

TEST_F(ConfineTest, TheProbeIsRemembered) {
  const auto confined = [this] {
    ConfineWorker("c++", "", {work_});
    _exit(0);
  };
  EXPECT_EXIT(confined(), ::testing::ExitedWithCode(0), "");
  int verdicts = 0;
  for (const auto& entry : fs::directory_iterator(work_)) {
    verdicts += entry.path().filename().string().rfind("walls-", 0) == 0;
  }
  EXPECT_EQ(verdicts, 1);
}

}  // namespace confine_test
}  // namespace tensord::server
