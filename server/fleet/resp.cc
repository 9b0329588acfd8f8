// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/resp.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace tensord::fleet {
namespace {

constexpr size_t kReadAtOnce = 64 << 10;
constexpr size_t kLongestLine = 4096;
constexpr char kEnd[] = "\r\n";

absl::Status NotRedis(const char* why) {
  return absl::UnavailableError(absl::StrCat("it does not answer as Redis does: ", why));
}

}  // namespace

void AppendCommand(std::string& out, const std::vector<std::string>& words) {
  absl::StrAppend(&out, "*", words.size(), kEnd);
  for (const std::string& word : words) absl::StrAppend(&out, "$", word.size(), kEnd, word, kEnd);
}

absl::Status RespReader::Fill() {
  buffer_.erase(0, std::exchange(at_, 0));
  const size_t before = buffer_.size();
  buffer_.resize(before + kReadAtOnce);
  const absl::StatusOr<size_t> got = read_(buffer_.data() + before, kReadAtOnce);
  buffer_.resize(before + got.value_or(0));
  if (!got.ok()) return got.status();
  if (*got == 0) return absl::UnavailableError("the server has closed the connection");
  return absl::OkStatus();
}

absl::StatusOr<std::string> RespReader::Line() {
  while (true) {
    const size_t end = buffer_.find(kEnd, at_);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(at_, end - at_);
      at_ = end + 2;
      return line;
    }
    if (buffer_.size() - at_ > kLongestLine) return NotRedis("a line without an end");
    TENSORD_RETURN_IF_ERROR(Fill());
  }
}

absl::StatusOr<RespReply> RespReader::Next(uint64_t most) {
  TENSORD_ASSIGN_OR_RETURN(std::string line, Line());
  if (line.empty()) return NotRedis("an empty line");
  const char type = line[0];
  line.erase(0, 1);
  if (type == '+') return RespReply{RespReply::kText, std::move(line)};
  if (type == '-') return RespReply{RespReply::kError, std::move(line)};
  if (type == ':') return RespReply{RespReply::kNumber, std::move(line)};
  int64_t size = 0;
  if (type != '$' || !absl::SimpleAtoi(line, &size) || size < -1) return NotRedis("no such answer");
  if (size == -1) return RespReply{};
  const auto bytes = static_cast<uint64_t>(size);
  if (bytes > most) return NotRedis("more than was asked for");
  RespReply reply{RespReply::kBulk, buffer_.substr(at_, bytes)};
  at_ += reply.text.size();
  while (reply.text.size() < bytes) {
    TENSORD_RETURN_IF_ERROR(Fill());
    const size_t more = std::min<uint64_t>(bytes - reply.text.size(), buffer_.size());
    reply.text.append(buffer_, 0, more);
    at_ = more;
  }
  TENSORD_ASSIGN_OR_RETURN(const std::string end, Line());
  if (!end.empty()) return NotRedis("an answer longer than it says");
  return reply;
}

}  // namespace tensord::fleet
