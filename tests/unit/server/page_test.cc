// SPDX-License-Identifier: Apache-2.0
// The page as a browser meets it: over HTTP, at an address of this host alone.
#include "server/ui/page.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "server/ui/history.h"

namespace tensord::server {
namespace page_test {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

PageSource Source() {
  PageSource source;
  source.stats = [](v1::Stats* stats) { stats->set_hits(7); };
  return source;
}

// What a server says to these bytes.
std::string Exchange(int port, const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  std::string reply;
  char piece[4096];
  for (ssize_t got; (got = read(fd, piece, sizeof piece)) > 0;) {
    reply.append(piece, static_cast<size_t>(got));
  }
  close(fd);
  return reply;
}

int PortOf(const std::string& url) {
  return std::stoi(url.substr(std::string("http://127.0.0.1:").size()));
}
std::string TokenOf(const std::string& url) { return url.substr(url.find('=') + 1); }

TEST(PageTest, IsServedFromWhenItIsAskedFor) {
  Page page(Source(), "");
  const auto url = page.Open();
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_THAT(*url, MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/#token=[0-9a-f]{64}"));
  EXPECT_EQ(*page.Open(), *url);
  const std::string reply = Exchange(
      PortOf(*url), "GET /api/stats HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
                        TokenOf(*url) + "\r\n\r\n");
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(reply, HasSubstr("\"hits\":\"7\""));
}

TEST(PageTest, EveryReplySaysWhatABrowserMayDo) {
  Page page(Source(), "127.0.0.1:0");
  const int port = PortOf(*page.Open());
  const std::pair<const char*, const char*> said[] = {
      {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 "},
      {"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 404 "},
      {"GET /%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 404 "},
      {"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 403 "},
      {"GET /api/stats HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 401 "},
      {"POST /api/stats HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
       "HTTP/1.1 405 "},
      {"OPTIONS /api/stats HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n"
       "Access-Control-Request-Method: GET\r\n\r\n",
       "HTTP/1.1 405 "},
  };
  for (const auto& [bytes, status] : said) {
    const std::string reply = Exchange(port, bytes);
    EXPECT_THAT(reply, StartsWith(status)) << bytes;
    EXPECT_THAT(reply, HasSubstr("Content-Security-Policy: default-src 'self';")) << bytes;
    EXPECT_THAT(reply, HasSubstr("X-Content-Type-Options: nosniff")) << bytes;
    EXPECT_THAT(reply, Not(HasSubstr("Access-Control-Allow"))) << bytes;
    EXPECT_THAT(reply, Not(HasSubstr("root:"))) << bytes;
  }
}

TEST(PageTest, WhatIsNoRequestEndsItsConnection) {
  Page page(Source(), "");
  const int port = PortOf(*page.Open());
  EXPECT_THAT(Exchange(port, "nothing that a browser says\r\n\r\n"), HasSubstr(" 400 "));
  EXPECT_THAT(Exchange(port, "GET /" + std::string(100'000, 'x') + " HTTP/1.1\r\n\r\n"),
              HasSubstr(" 400 "));
  EXPECT_THAT(Exchange(port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), HasSubstr(" 200 "));
}

TEST(PageTest, IsOfThisHostAlone) {
  Page page(Source(), "");
  for (const char* address : {"0.0.0.0:0", "10.0.0.1:80", "example.org:80", "nonsense"}) {
    EXPECT_EQ(page.Open(address).status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
  EXPECT_THAT(std::string(page.Open("0.0.0.0:0").status().message()), HasSubstr("ssh -L"));
}

TEST(PageTest, IsAtOnePlace) {
  Page one(Source(), "127.0.0.1:0"), other(Source(), "");
  const std::string url = *one.Open();
  const std::string place = "127.0.0.1:" + std::to_string(PortOf(url));
  EXPECT_EQ(*one.Open(place), url);
  EXPECT_EQ(*one.Open("127.0.0.1:0"), url);
  EXPECT_EQ(one.Open("127.0.0.1:1").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(other.Open(place).status().code(), absl::StatusCode::kFailedPrecondition);
  // It may be had elsewhere then.
  EXPECT_TRUE(other.Open().ok());
  EXPECT_NE(TokenOf(*other.Open()), TokenOf(url));
}

TEST(PageTest, EndsAtOnce) {
  // The host may be slow once.
  auto least = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 5 && least > std::chrono::milliseconds(1500); ++i) {
    auto page = std::make_unique<Page>(Source(), "");
    ASSERT_TRUE(page->Open().ok());
    const auto start = std::chrono::steady_clock::now();
    page.reset();
    least = std::min(least, std::chrono::steady_clock::now() - start);
  }
  EXPECT_LT(least, std::chrono::milliseconds(1500));
}

TEST(HistoryTest, KeepsSoManySamples) {
  std::atomic<uint64_t> reads{0};
  History history([&](v1::Stats* stats) { stats->set_hits(++reads); }, absl::Milliseconds(1), 5);
  while (reads < 10) std::this_thread::yield();
  const std::string json = history.ToJson(0);
  EXPECT_THAT(json, Not(HasSubstr("\"values\":[[1,")));
  const std::string times = json.substr(json.find("\"times\":["));
  EXPECT_EQ(std::count(times.begin(), times.begin() + static_cast<long>(times.find(']')), ','), 4);
}

}  // namespace page_test
}  // namespace tensord::server
