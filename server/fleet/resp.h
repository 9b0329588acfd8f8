// SPDX-License-Identifier: Apache-2.0
// Redis's protocol (RESP 2), as far as the tier speaks it: commands are lists of strings, and no
// answer is a list. A reader never takes more memory than it was told it may, whatever the server
// claims.
#ifndef TENSORD_SERVER_FLEET_RESP_H_
#define TENSORD_SERVER_FLEET_RESP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace tensord::fleet {

// Appends a command as it goes over the wire.
void AppendCommand(std::string& out, const std::vector<std::string>& words);

struct RespReply {
  enum Kind { kText, kError, kNumber, kBulk, kNone };
  Kind kind = kNone;
  std::string text;  // of all but kNone; a number in decimal
};

class RespReader {
 public:
  // `read` waits for some bytes and gives how many there are, at most `size`; 0 is the end.
  using Read = std::function<absl::StatusOr<size_t>(char* buffer, size_t size)>;
  explicit RespReader(Read read) : read_(std::move(read)) {}

  // The next answer, of at most `most` bytes. Unavailable: the server is none of Redis's, or gives
  // more than that; the connection is of no use any more.
  absl::StatusOr<RespReply> Next(uint64_t most);
  // Whether more has come than was read.
  bool HasMore() const { return at_ < buffer_.size(); }

 private:
  absl::Status Fill();
  absl::StatusOr<std::string> Line();

  const Read read_;
  std::string buffer_;
  size_t at_ = 0;  // in the buffer
};

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_RESP_H_
