// SPDX-License-Identifier: Apache-2.0
#include "server/http/end_at_once.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tensord::server {
namespace {

// Connects, and leaves.
void Knock(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  (void)connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  close(fd);
}

}  // namespace

void EndAtOnce(const std::string& host, int port, const std::function<void()>& end) {
  std::atomic<bool> ended{false};
  std::thread knocker([&] {
    while (!ended) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      Knock(host, port);
    }
  });
  end();
  ended = true;
  knocker.join();
}

}  // namespace tensord::server
