// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/redis_tier.h"

#include <absl/base/thread_annotations.h>
#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <set>
#include <utility>

#include "server/fleet/resp.h"
#include "server/store/blobs.h"

namespace tensord::fleet {
namespace {

constexpr uint64_t kPiece = 1 << 20;
constexpr uint64_t kShort = 64 << 10;  // of answers that are no objects
constexpr size_t kWritten = 4 << 20;   // at once, of commands that follow each other
constexpr size_t kMostIdle = 8;        // connections

struct Command {
  std::vector<std::string> words;
  std::set<RespReply::Kind> answers;  // besides kError
  uint64_t bytes = kShort;            // of the answer, as expected
};

// The value that is there goes if it is still this one.
constexpr char kRelease[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

std::string KeyOf(std::string name, uint64_t piece = 0) {
  std::replace(name.begin(), name.end(), '/', ':');
  return piece == 0 ? absl::StrCat("tensord:", name) : absl::StrCat("tensord:", name, ":", piece);
}

uint64_t PiecesOf(uint64_t bytes) { return std::max<uint64_t>(1, (bytes + kPiece - 1) / kPiece); }

absl::Status Refusal(const RespReply& reply) {
  return absl::FailedPreconditionError(absl::StrCat("Redis says: ", reply.text));
}

// One connection, which has logged in.
class Session {
 public:
  explicit Session(std::unique_ptr<Connection> connection)
      : connection_(std::move(connection)), reader_([this](char* buffer, size_t size) {
          return connection_->Read(buffer, size, deadline_);
        }) {}

  // Whether the server has said no more than it was asked.
  bool IsSound() const { return !reader_.HasMore(); }

  // The answers to commands that are sent one behind the other. Unavailable: one is of another
  // kind, or they are all together larger than expected by more than a piece.
  absl::StatusOr<std::vector<RespReply>> Run(const std::vector<Command>& commands,
                                             absl::Time deadline) {
    deadline_ = deadline;
    std::string bytes;
    uint64_t left = kPiece;
    for (const Command& command : commands) {
      left += command.bytes;
      AppendCommand(bytes, command.words);
      if (bytes.size() < kWritten) continue;
      TENSORD_RETURN_IF_ERROR(connection_->Write(bytes, deadline));
      bytes.clear();
    }
    TENSORD_RETURN_IF_ERROR(connection_->Write(bytes, deadline));
    std::vector<RespReply> replies;
    for (const Command& command : commands) {
      TENSORD_ASSIGN_OR_RETURN(RespReply reply, reader_.Next(std::min(left, kPiece)));
      if (reply.kind != RespReply::kError && !command.answers.contains(reply.kind)) {
        return absl::UnavailableError(command.words[0] + " is answered by what is no answer to it");
      }
      left -= reply.text.size();
      replies.push_back(std::move(reply));
    }
    return replies;
  }

 private:
  const std::unique_ptr<Connection> connection_;
  absl::Time deadline_;
  RespReader reader_;
};

class RedisTier : public Tier {
 public:
  explicit RedisTier(RedisOptions options) : options_(std::move(options)) {}

  std::string Where() const override { return options_.endpoint.ToString(); }

  absl::StatusOr<std::vector<std::optional<std::string>>> Get(const std::vector<Wanted>& wanted,
                                                              absl::Time deadline) override {
    std::vector<Command> commands;
    for (const Wanted& one : wanted) {
      const uint64_t bytes = one.bytes == 0 ? kMostUnknownBytes : one.bytes;
      for (uint64_t piece = 0; piece < PiecesOf(one.bytes); ++piece) {
        commands.push_back({{"GET", KeyOf(one.name, piece)},
                            {RespReply::kBulk, RespReply::kNone},
                            std::min(kPiece, bytes - piece * kPiece)});
      }
    }
    TENSORD_ASSIGN_OR_RETURN(auto replies, Run(commands, deadline));
    std::vector<std::optional<std::string>> all;
    size_t at = 0;
    for (const Wanted& one : wanted) {
      std::optional<std::string> value = "";
      for (uint64_t piece = 0; piece < PiecesOf(one.bytes); ++piece, ++at) {
        RespReply& reply = replies[at];
        if (reply.kind == RespReply::kError) return Refusal(reply);
        if (reply.kind == RespReply::kNone) value.reset();
        if (value.has_value()) *value += std::exchange(reply.text, "");
      }
      all.push_back(std::move(value));
    }
    return all;
  }

  absl::Status Put(const std::vector<Object>& objects, absl::Time deadline) override {
    if (objects.empty()) return absl::OkStatus();
    // The last one is what others find the rest by: it waits until they are known to be there.
    std::vector<Command> rest, last;
    for (const Object& object : objects) {
      std::vector<Command>& commands = &object == &objects.back() ? last : rest;
      for (uint64_t piece = 0; piece < PiecesOf(object.value.size()); ++piece) {
        std::vector<std::string> set = {"SET", KeyOf(object.name, piece),
                                        object.value.substr(piece * kPiece, kPiece)};
        if (options_.expiry > absl::ZeroDuration()) {
          set.insert(set.end(), {"EX", absl::StrCat(absl::ToInt64Seconds(options_.expiry))});
        }
        commands.push_back({std::move(set), {RespReply::kText}});
      }
    }
    for (const std::vector<Command>& commands : {std::move(rest), std::move(last)}) {
      if (commands.empty()) continue;
      TENSORD_ASSIGN_OR_RETURN(const auto replies, Run(commands, deadline));
      for (const RespReply& reply : replies) {
        if (reply.kind == RespReply::kError) return Refusal(reply);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Claim(const std::string& name, const std::string& value,
                                    absl::Duration lifetime, absl::Time deadline) override {
    const std::string key = KeyOf(name);
    const std::string milliseconds =
        absl::StrCat(std::max<int64_t>(1, absl::ToInt64Milliseconds(lifetime)));
    TENSORD_ASSIGN_OR_RETURN(
        const auto replies,
        Run({{{"SET", key, value, "NX", "PX", milliseconds}, {RespReply::kText, RespReply::kNone}},
             {{"GET", key}, {RespReply::kBulk, RespReply::kNone}}},
            deadline));
    for (const RespReply& reply : replies) {
      if (reply.kind == RespReply::kError) return Refusal(reply);
    }
    // One that ended between the two commands holds nobody.
    return replies[1].kind == RespReply::kBulk ? replies[1].text : value;
  }

  absl::Status Release(const std::string& name, const std::string& value,
                       absl::Time deadline) override {
    TENSORD_ASSIGN_OR_RETURN(
        const auto replies,
        Run({{{"EVAL", kRelease, "1", KeyOf(name), value}, {RespReply::kNumber}}}, deadline));
    return replies[0].kind == RespReply::kError ? Refusal(replies[0]) : absl::OkStatus();
  }

 private:
  absl::StatusOr<std::vector<RespReply>> Run(const std::vector<Command>& commands,
                                             absl::Time deadline) {
    if (std::unique_ptr<Session> session = TakeIdle()) {
      auto replies = session->Run(commands, deadline);
      // Something between may have forgotten this connection, and those that idle as long.
      if (absl::IsDeadlineExceeded(replies.status())) DropIdle();
      // A server that was started anew, or that ends connections that idle, has lost this one:
      // every command may be given twice.
      if (!absl::IsUnavailable(replies.status())) {
        if (replies.ok()) Keep(std::move(session));
        return replies;
      }
    }
    TENSORD_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, LogIn(deadline));
    auto replies = session->Run(commands, deadline);
    if (replies.ok()) Keep(std::move(session));
    return replies;
  }

  absl::StatusOr<std::unique_ptr<Session>> LogIn(absl::Time deadline) {
    DropIdle();  // of which the others are likely lost, too
    TENSORD_ASSIGN_OR_RETURN(auto connection, Connection::Open(options_.endpoint, deadline));
    auto session = std::make_unique<Session>(std::move(connection));
    std::string password = options_.password;
    if (!options_.password_file.empty()) {
      const auto read = store::ReadFile(options_.password_file);
      if (!read.ok()) {
        return absl::FailedPreconditionError(
            absl::StrCat("fleet_password_file: ", read.status().message()));
      }
      password = std::string(absl::StripAsciiWhitespace(*read));
    }
    std::vector<Command> commands;
    if (!options_.user.empty()) {
      commands.push_back({{"AUTH", options_.user, password}, {RespReply::kText}});
    } else if (!password.empty()) {
      commands.push_back({{"AUTH", password}, {RespReply::kText}});
    }
    if (!options_.database.empty())
      commands.push_back({{"SELECT", options_.database}, {RespReply::kText}});
    TENSORD_ASSIGN_OR_RETURN(const auto replies, session->Run(commands, deadline));
    for (const RespReply& reply : replies) {
      if (reply.kind == RespReply::kError) return Refusal(reply);
    }
    return session;
  }

  std::unique_ptr<Session> TakeIdle() {
    absl::MutexLock lock(&mutex_);
    if (idle_.empty()) return nullptr;
    std::unique_ptr<Session> session = std::move(idle_.back());
    idle_.pop_back();
    return session;
  }
  void Keep(std::unique_ptr<Session> session) {
    absl::MutexLock lock(&mutex_);
    if (idle_.size() < kMostIdle && session->IsSound()) idle_.push_back(std::move(session));
  }
  void DropIdle() {
    std::vector<std::unique_ptr<Session>> dropped;
    absl::MutexLock lock(&mutex_);
    dropped.swap(idle_);
  }

  const RedisOptions options_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Session>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Tier> MakeRedisTier(RedisOptions options) {
  return std::make_unique<RedisTier>(std::move(options));
}

}  // namespace tensord::fleet
