// SPDX-License-Identifier: Apache-2.0
// saying_worker FILE: a worker that says what the file has. It begins with a number of eight bytes;
// while that stays, the n-th request is answered with the n-th message behind it, whole or not.
// What is cut short ends the worker, as does a request behind the last.
#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

namespace {

constexpr int kSocket = 3;  // kWorkerFd

bool Receive(char* data, size_t size) {
  while (size > 0) {
    const ssize_t got = recv(kSocket, data, size, 0);
    if (got <= 0) return false;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

uint32_t SizeIn(const char* prefix) {
  uint32_t size = 0;
  for (int i = 3; i >= 0; --i) size = size << 8 | static_cast<uint8_t>(prefix[i]);
  return size;
}

bool ReceiveRequest() {
  char prefix[4];
  if (!Receive(prefix, sizeof prefix)) return false;
  std::string request(SizeIn(prefix), '\0');
  return Receive(request.data(), request.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  constexpr size_t kNumber = 8;
  std::string number, said;
  while (ReceiveRequest()) {
    std::ifstream file(argv[1], std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    if (content.size() < kNumber) return 1;
    if (content.compare(0, kNumber, number) != 0) {
      number = content.substr(0, kNumber);
      said = content.substr(kNumber);
    }
    const bool has_size = said.size() >= 4;
    const size_t whole = has_size ? 4 + size_t{SizeIn(said.data())} : 0;
    const std::string answer = said.substr(0, has_size ? whole : said.size());
    said.erase(0, answer.size());
    if (send(kSocket, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) return 1;
    if (!has_size || answer.size() < whole) return 0;
  }
  return 0;
}
