// SPDX-License-Identifier: Apache-2.0
#include "server/worker/framing.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/io/coded_stream.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>

#include "base/clock.h"

namespace tensord::server {
namespace {

absl::Status WaitFor(int fd, short events, absl::Time deadline) {
  while (true) {
    int timeout_ms = -1;
    if (deadline != absl::InfiniteFuture()) {
      // Rounded up: polling with 0 near the deadline would spin.
      const int64_t left = absl::ToInt64Milliseconds(deadline - SteadyNow()) + 1;
      if (left <= 0) return absl::DeadlineExceededError("no answer in time");
      timeout_ms = static_cast<int>(std::min<int64_t>(left, std::numeric_limits<int>::max()));
    }
    pollfd wait{fd, events, 0};
    const int ready = poll(&wait, 1, timeout_ms);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "poll");
  }
}

absl::Status SendAll(int fd, const char* data, size_t size, absl::Time deadline) {
  while (size > 0) {
    const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      data += sent;
      size -= static_cast<size_t>(sent);
    } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      TENSORD_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline));
    } else if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) {
      return absl::OutOfRangeError("closed");
    } else if (sent < 0 && errno != EINTR) {
      return absl::ErrnoToStatus(errno, "send");
    }
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(int fd, char* data, size_t size, absl::Time deadline) {
  while (size > 0) {
    const ssize_t got = recv(fd, data, size, MSG_DONTWAIT);
    if (got > 0) {
      data += got;
      size -= static_cast<size_t>(got);
    } else if (got == 0 || errno == ECONNRESET) {
      return absl::OutOfRangeError("closed");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      TENSORD_RETURN_IF_ERROR(WaitFor(fd, POLLIN, deadline));
    } else if (errno != EINTR) {
      return absl::ErrnoToStatus(errno, "recv");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AwaitReadable(int fd, absl::Time deadline) { return WaitFor(fd, POLLIN, deadline); }

absl::Status WriteFrame(int fd, const google::protobuf::MessageLite& message, absl::Time deadline) {
  std::string data;
  if (!message.SerializeToString(&data)) return absl::InternalError("cannot serialise a message");
  const std::string_view piece = data;
  return WriteFrame(fd, {&piece, 1}, deadline);
}

absl::Status WriteFrame(int fd, absl::Span<const std::string_view> pieces, absl::Time deadline) {
  size_t size = 0;
  for (const std::string_view piece : pieces) size += piece.size();
  if (size > kMaxFrame) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", size, " bytes is too large"));
  }
  char prefix[4];
  for (int i = 0; i < 4; ++i) prefix[i] = static_cast<char>(size >> (8 * i));
  TENSORD_RETURN_IF_ERROR(SendAll(fd, prefix, sizeof prefix, deadline));
  for (const std::string_view piece : pieces) {
    TENSORD_RETURN_IF_ERROR(SendAll(fd, piece.data(), piece.size(), deadline));
  }
  return absl::OkStatus();
}

absl::Status ReadFrame(int fd, google::protobuf::MessageLite* message, absl::Time deadline) {
  unsigned char prefix[4];
  TENSORD_RETURN_IF_ERROR(ReceiveAll(fd, reinterpret_cast<char*>(prefix), 4, deadline));
  const uint32_t size =
      prefix[0] | prefix[1] << 8 | prefix[2] << 16 | static_cast<uint32_t>(prefix[3]) << 24;
  if (size > kMaxFrame) return absl::DataLossError("a frame is longer than allowed");
  std::string data(size, '\0');
  TENSORD_RETURN_IF_ERROR(ReceiveAll(fd, data.data(), size, deadline));
  if (!ParseFrame(data, message)) return absl::DataLossError("a frame is not a message");
  return absl::OkStatus();
}

bool ParseFrame(std::string_view bytes, google::protobuf::MessageLite* message) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  in.SetRecursionLimit(2 * google::protobuf::io::CodedInputStream::GetDefaultRecursionLimit());
  return message->ParseFromCodedStream(&in) && in.ConsumedEntireMessage();
}

}  // namespace tensord::server
