// SPDX-License-Identifier: Apache-2.0
// Redis's protocol, and the tier over a server of the test's own that answers as it is told. A real
// Redis is in tests/e2e/test_fleet.py.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "server/fleet/redis_tier.h"
#include "server/fleet/resp.h"
#include "tests/unit/server/fleet_testing.h"

namespace tensord::fleet {
namespace fleet_redis_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

// Gives the bytes `piece` at a time.
RespReader ReaderOf(std::string bytes, size_t piece) {
  auto rest = std::make_shared<std::string>(std::move(bytes));
  return RespReader([rest, piece](char* buffer, size_t size) -> absl::StatusOr<size_t> {
    const size_t count = std::min({size, piece, rest->size()});
    rest->copy(buffer, count);
    rest->erase(0, count);
    return count;
  });
}

TEST(Resp, ReadsAnswersHoweverTheyAreCut) {
  const std::string large(200'000, 'x');
  const std::string all = "+OK\r\n$3\r\na\r\n\r\n$-1\r\n:17\r\n-ERR no\r\n$0\r\n\r\n$" +
                          std::to_string(large.size()) + "\r\n" + large + "\r\n+end\r\n";
  for (const size_t piece : {1, 2, 7, 1000, 1 << 20}) {
    RespReader reader = ReaderOf(all, piece);
    const std::pair<RespReply::Kind, std::string> expected[] = {
        {RespReply::kText, "OK"},   {RespReply::kBulk, "a\r\n"},   {RespReply::kNone, ""},
        {RespReply::kNumber, "17"}, {RespReply::kError, "ERR no"}, {RespReply::kBulk, ""},
        {RespReply::kBulk, large},  {RespReply::kText, "end"},
    };
    for (const auto& [kind, text] : expected) {
      const auto reply = reader.Next(1 << 20);
      ASSERT_TRUE(reply.ok()) << reply.status();
      EXPECT_EQ(reply->kind, kind);
      EXPECT_EQ(reply->text, text);
    }
    EXPECT_THAT(reader.Next(10).status().ToString(), HasSubstr("closed"));
  }
}

TEST(Resp, RefusesWhatIsNoAnswer) {
  for (const char* bytes : {"\r\n", "HTTP/1.1 400\r\n", "*1\r\n$1\r\na\r\n", "$\r\n", "$-2\r\n",
                            "$x\r\n", "$11\r\n", "$99999999999999999999\r\n", "$3\r\nabcd\r\n"}) {
    EXPECT_TRUE(absl::IsUnavailable(ReaderOf(bytes, 100).Next(10).status())) << bytes;
  }
  const auto endless = ReaderOf("+" + std::string(1 << 20, 'x'), 1000).Next(10);
  EXPECT_THAT(endless.status().ToString(), HasSubstr("without an end"));
}

TEST(RedisUrl, Parts) {
  const auto full = ParseRedisUrl("rediss://me:p%40ss%3a@cache.example:7000/3");
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->user, "me");
  EXPECT_EQ(full->password, "p@ss:");
  EXPECT_EQ(full->endpoint.host, "cache.example");
  EXPECT_EQ(full->endpoint.port, "7000");
  EXPECT_EQ(full->database, "3");
  EXPECT_TRUE(full->endpoint.tls);
  EXPECT_EQ(full->endpoint.ToString(), "rediss://cache.example:7000");
  const auto least = ParseRedisUrl("redis://host");
  EXPECT_EQ(least->endpoint.port, "6379");
  EXPECT_FALSE(least->endpoint.tls);
  EXPECT_EQ(ParseRedisUrl("redis://:secret@host")->password, "secret");
  EXPECT_EQ(ParseRedisUrl("redis://[::1]:7000")->endpoint.host, "::1");
  EXPECT_EQ(ParseRedisUrl("redis://[::1]:7000")->endpoint.port, "7000");
  EXPECT_EQ(ParseRedisUrl("redis+unix:///run/redis.sock")->endpoint.path, "/run/redis.sock");
  for (const char* wrong :
       {"redis:", "redis://", "redis://host:port", "redis://host:/0", "redis://host/x",
        "redis://u:%4@host", "http://host", "redis+unix://socket", "redis://[::1]x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseRedisUrl(wrong).status())) << wrong;
  }
}

// Listens on a Unix socket; `serve` gets each connection.
class Server {
 public:
  Server(const std::string& path, std::function<void(int fd)> serve) : serve_(std::move(serve)) {
    fd_ = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    thread_ = std::thread([this] {
      for (int one; (one = accept(fd_, nullptr, nullptr)) >= 0; close(one)) {
        ++connections;
        serve_(one);
      }
    });
  }
  ~Server() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
  }
  std::atomic<int> connections{0};

 private:
  const std::function<void(int)> serve_;
  int fd_;
  std::thread thread_;
};

class RedisTierTest : public FleetFolderTest {
 protected:
  RedisTierTest() {
    RedisOptions options;
    options.endpoint.path = folder_ + "/s";
    tier_ = MakeRedisTier(options);
  }
  static void Say(int fd, const std::string& text) {
    EXPECT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), ssize_t(text.size()));
  }
  static void Hear(int fd) {
    char buffer[4096];
    EXPECT_GE(recv(fd, buffer, sizeof buffer, 0), 0);
  }
  // What a tier gets of a server that says `answer` to everything, within 100 ms.
  absl::StatusOr<std::vector<std::optional<std::string>>> GetOf(const std::string& answer) {
    Server server(folder_ + "/s", [&](int fd) {
      Hear(fd);
      Say(fd, answer);
    });
    auto got = tier_->Get({{"blob/ab", 5}}, absl::Now() + absl::Milliseconds(100));
    unlink((folder_ + "/s").c_str());
    return got;
  }

  std::unique_ptr<Tier> tier_;
};

TEST_F(RedisTierTest, Answers) {
  EXPECT_THAT(*GetOf("$5\r\nvalue\r\n"), ElementsAre(Optional(std::string("value"))));
  EXPECT_THAT(*GetOf("$-1\r\n"), ElementsAre(std::nullopt));
}

TEST_F(RedisTierTest, TroubleIsTrouble) {
  EXPECT_TRUE(
      absl::IsUnavailable(tier_->Get({{"blob/ab"}}, absl::Now() + absl::Seconds(1)).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(GetOf("-NOAUTH no\r\n").status()));
  EXPECT_TRUE(absl::IsUnavailable(GetOf("HTTP/1.1 400 Bad Request\r\n\r\n").status()));
  EXPECT_TRUE(absl::IsUnavailable(GetOf("").status())) << "closes";
  EXPECT_TRUE(absl::IsUnavailable(GetOf("$5\r\nval").status()));
  EXPECT_TRUE(absl::IsUnavailable(GetOf("$2000000\r\n").status())) << "larger than a piece";
  EXPECT_TRUE(absl::IsUnavailable(GetOf("+OK\r\n").status())) << "to something else";
  EXPECT_TRUE(absl::IsUnavailable(GetOf(":1\r\n").status()));
}

// One may be larger than it should, as it is when somebody wrote it anew; not all of them.
TEST_F(RedisTierTest, AnswersTakeNoMoreMemoryThanWhatWasAskedForAndAPiece) {
  const std::string large = "$1048576\r\n" + std::string(1 << 20, 'x') + "\r\n";
  Server server(folder_ + "/s", [&](int fd) {
    Hear(fd);
    for (int i = 0; i < 3; ++i) {
      if (send(fd, large.data(), large.size(), MSG_NOSIGNAL) < 0) break;
    }
  });
  const absl::Time deadline = absl::Now() + absl::Seconds(5);
  EXPECT_TRUE(tier_->Get({{"blob/ab", 5}}, deadline).ok());
  const auto all = tier_->Get({{"blob/ab", 5}, {"blob/cd", 5}, {"blob/ef", 5}}, deadline);
  EXPECT_TRUE(absl::IsUnavailable(all.status())) << all.status();
}

TEST_F(RedisTierTest, NobodyWaitsPastTheDeadline) {
  absl::Notification end;
  Server silent(folder_ + "/s", [&](int) { end.WaitForNotification(); });
  const absl::Time start = absl::Now();
  const auto got = tier_->Get({{"blob/ab"}}, start + absl::Milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(got.status())) << got.status();
  EXPECT_LT(absl::Now() - start, kLong);
  end.Notify();
}

// A byte now and then is no answer either.
TEST_F(RedisTierTest, NobodyWaitsForDrops) {
  absl::Notification end;
  Server slow(folder_ + "/s", [&](int fd) {
    Hear(fd);
    while (!end.HasBeenNotified()) {
      send(fd, "$", 1, MSG_NOSIGNAL);
      absl::SleepFor(absl::Milliseconds(10));
    }
  });
  const absl::Time start = absl::Now();
  const auto got = tier_->Get({{"blob/ab"}}, start + absl::Milliseconds(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(got.status())) << got.status();
  EXPECT_LT(absl::Now() - start, kLong);
  end.Notify();
}

TEST_F(RedisTierTest, ALostConnectionIsMadeAgain) {
  Server server(folder_ + "/s", [&](int fd) {
    Hear(fd);
    Say(fd, "$-1\r\n");  // one answer, and the end
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(tier_->Get({{"blob/ab"}}, absl::Now() + absl::Seconds(5)).ok());
  }
  EXPECT_EQ(server.connections, 3);
}

// As a firewall does with connections that nobody used over night, and tells nobody.
TEST_F(RedisTierTest, ForgottenConnectionsAreGivenUpTogether) {
  std::atomic<bool> forgets{false};
  std::atomic<int> asked{0};
  std::vector<std::thread> served;
  {
    Server server(folder_ + "/s", [&](int fd) {
      served.emplace_back([&, fd = dup(fd), is_new = forgets.load()] {
        for (char buffer[4096]; recv(fd, buffer, sizeof buffer, 0) > 0;) {
          ++asked;
          while (asked < 2) std::this_thread::yield();  // until both are connected
          if (is_new || !forgets) Say(fd, "$-1\r\n");
        }
        close(fd);
      });
    });
    const auto get = [&](absl::Duration within) {
      return tier_->Get({{"blob/ab"}}, absl::Now() + within).status();
    };
    std::thread other([&] { EXPECT_TRUE(get(absl::Seconds(5)).ok()); });
    EXPECT_TRUE(get(absl::Seconds(5)).ok());
    other.join();
    EXPECT_EQ(server.connections, 2);
    forgets = true;
    EXPECT_TRUE(absl::IsDeadlineExceeded(get(absl::Milliseconds(50))));
    EXPECT_TRUE(get(absl::Seconds(5)).ok());
    EXPECT_EQ(server.connections, 3);
    tier_.reset();
  }
  for (std::thread& one : served) one.join();
}

}  // namespace fleet_redis_test
}  // namespace tensord::fleet
