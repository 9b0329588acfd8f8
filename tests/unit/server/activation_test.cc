// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/activation.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace tensord::server {
namespace activation_test {

constexpr int kPassed = 3;

class ActivationTest : public ::testing::Test {
 protected:
  ActivationTest() {
    char folder[] = "/tmp/tensord-activation.XXXXXX";
    folder_ = mkdtemp(folder);
    before_ = fcntl(kPassed, F_DUPFD_CLOEXEC, 10);  // whatever this process has there
  }
  ~ActivationTest() override {
    if (before_ >= 0) {
      dup2(before_, kPassed);
      close(before_);
    } else {
      close(kPassed);
    }
    std::filesystem::remove_all(folder_);
  }

  // Passes a Unix socket.
  void Pass(bool listening, bool named = true) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (folder_ + "/s").c_str());
    const socklen_t size = named ? sizeof address : sizeof address.sun_family;
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_TRUE(!listening || listen(fd, 1) == 0);
    if (fd == kPassed) return;
    ASSERT_EQ(dup2(fd, kPassed), kPassed);
    close(fd);
  }
  static void SetVariables(const char* count, pid_t pid = getpid()) {
    setenv("LISTEN_FDS", count, 1);
    setenv("LISTEN_PID", std::to_string(pid).c_str(), 1);
  }

  std::string folder_;
  int before_;
};

TEST_F(ActivationTest, TakesASocketThatListens) {
  Pass(/*listening=*/true);
  SetVariables("1");
  const auto passed = TakePassedSocket();
  ASSERT_TRUE(passed.ok() && passed->has_value()) << passed.status();
  EXPECT_EQ((*passed)->fd, kPassed);
  EXPECT_EQ((*passed)->path, folder_ + "/s");
  EXPECT_EQ(fcntl(kPassed, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(std::getenv("LISTEN_FDS"), nullptr);  // not for children
  EXPECT_FALSE(TakePassedSocket()->has_value());
}

TEST_F(ActivationTest, LeavesWhatIsAnotherProcesss) {
  SetVariables("1", getppid());
  EXPECT_FALSE(TakePassedSocket()->has_value());
  EXPECT_FALSE(TakePassedSocket()->has_value());
}

TEST_F(ActivationTest, RefusesWhatItCannotServe) {
  Pass(/*listening=*/true);
  for (const char* count : {"0", "2", "many"}) {
    SetVariables(count);
    EXPECT_TRUE(absl::IsInvalidArgument(TakePassedSocket().status())) << count;
  }
  Pass(/*listening=*/true, /*named=*/false);
  SetVariables("1");
  EXPECT_TRUE(absl::IsInvalidArgument(TakePassedSocket().status()));
}

TEST_F(ActivationTest, RefusesASocketThatDoesNotListen) {
  Pass(/*listening=*/false);
  SetVariables("1");
  EXPECT_TRUE(absl::IsInvalidArgument(TakePassedSocket().status()));
}

}  // namespace activation_test
}  // namespace tensord::server
