// SPDX-License-Identifier: Apache-2.0
// Length-prefixed protobuf over a stream socket: 4 bytes little-endian, then the message. Deadlines
// are of SteadyNow().
#ifndef TENSORD_SERVER_WORKER_FRAMING_H_
#define TENSORD_SERVER_WORKER_FRAMING_H_

#include <absl/time/time.h>
#include <absl/types/span.h>
#include <google/protobuf/message_lite.h>

#include <string_view>

#include "base/status.h"

namespace tensord::server {

// The descriptor on which a worker finds its socket.
inline constexpr int kWorkerFd = 3;

// Longer messages are refused on both sides.
inline constexpr uint32_t kMaxFrame = 512u << 20;

// Until there is something to read, be it the end. DeadlineExceeded: there is nothing yet.
absl::Status AwaitReadable(int fd, absl::Time deadline);

// Both block until done, whatever the socket's flags. OutOfRange: the other side has closed
// (nothing more to read). DeadlineExceeded: `deadline` has passed; the stream is then of no use.
// DataLoss: not a message.
absl::Status WriteFrame(int fd, const google::protobuf::MessageLite& message,
                        absl::Time deadline = absl::InfiniteFuture());
// The same for a message that is serialised already, in pieces that are not copied.
absl::Status WriteFrame(int fd, absl::Span<const std::string_view> pieces, absl::Time deadline);
absl::Status ReadFrame(int fd, google::protobuf::MessageLite* message,
                       absl::Time deadline = absl::InfiniteFuture());
// The message of a frame. It may be nested twice as deeply as protobuf allows by default: a request
// that was read with that limit lies within another message here.
bool ParseFrame(std::string_view bytes, google::protobuf::MessageLite* message);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_WORKER_FRAMING_H_
