// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/activation.h"

#include <absl/cleanup/cleanup.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace tensord::server {
namespace {

constexpr int kFirstFd = 3;

absl::StatusOr<std::string> PathOf(int fd) {
  sockaddr_un address{};
  socklen_t size = sizeof address;
  int listens = 0;
  socklen_t listens_size = sizeof listens;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      address.sun_family != AF_UNIX || size <= offsetof(sockaddr_un, sun_path) ||
      address.sun_path[0] != '/' ||
      getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) != 0 || listens == 0) {
    return absl::InvalidArgumentError(
        "the socket that was passed (LISTEN_FDS) is not a listening Unix socket with a path");
  }
  return std::string(address.sun_path, strnlen(address.sun_path, sizeof address.sun_path));
}

}  // namespace

absl::StatusOr<std::optional<PassedSocket>> TakePassedSocket() {
  const char* count = std::getenv("LISTEN_FDS");
  const char* pid = std::getenv("LISTEN_PID");
  const absl::Cleanup unset = [] {
    for (const char* name : {"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"}) unsetenv(name);
  };
  int number = 0;
  if (count == nullptr || pid == nullptr || !absl::SimpleAtoi(pid, &number) || number != getpid()) {
    return std::nullopt;
  }
  if (!absl::SimpleAtoi(count, &number) || number != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("LISTEN_FDS is ", count, "; the daemon serves one socket"));
  }
  fcntl(kFirstFd, F_SETFD, FD_CLOEXEC);
  fcntl(kFirstFd, F_SETFL, fcntl(kFirstFd, F_GETFL) | O_NONBLOCK);
  TENSORD_ASSIGN_OR_RETURN(std::string path, PathOf(kFirstFd));
  return PassedSocket{kFirstFd, std::move(path)};
}

absl::StatusOr<std::unique_ptr<OwnSocket>> OwnSocket::Listen(const std::string& path) {
  const auto trouble = [&path](int error) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", path, ": ", std::strerror(error)));
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return trouble(ENAMETOOLONG);
  path.copy(address.sun_path, path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return trouble(errno);
  std::unique_ptr<OwnSocket> made(new OwnSocket(fd, path));
  unlink(path.c_str());
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      chmod(path.c_str(), 0600) != 0 || listen(fd, SOMAXCONN) != 0) {
    return trouble(errno);
  }
  return made;
}

OwnSocket::~OwnSocket() {
  unlink(path_.c_str());
  close(fd_);
}

Acceptor::Acceptor(grpc::Server* server, int fd)
    : server_(server), fd_(fd), stop_(eventfd(0, EFD_CLOEXEC)), thread_([this] { Accept(); }) {
  TENSORD_CHECK(stop_ >= 0);
}

Acceptor::~Acceptor() {
  eventfd_write(stop_, 1);
  thread_.join();
  close(stop_);
}

void Acceptor::Accept() {
  while (true) {
    pollfd waits[] = {{stop_, POLLIN, 0}, {fd_, POLLIN, 0}};
    if (poll(waits, 2, -1) < 0 && errno == EINTR) continue;
    if (waits[0].revents != 0) return;
    const int connection = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection >= 0) {
      grpc::AddInsecureChannelFromFd(server_, connection);
    } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      // No descriptor or no memory at the moment: the connection stays in the queue.
      constexpr int kAWhileMs = 100;
      poll(waits, 1, kAWhileMs);
    }
  }
}

}  // namespace tensord::server
