// SPDX-License-Identifier: Apache-2.0
#include "server/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "server/rpc/address.h"

namespace tensord::server {
namespace config_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() {
    char folder[] = "/tmp/tensord-config-test.XXXXXX";
    folder_ = mkdtemp(folder);
    for (const Option& option : Options()) {
      if (option.env != nullptr) unsetenv(option.env);
    }
    setenv("HOME", folder_.c_str(), 1);
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("XDG_RUNTIME_DIR");
  }
  ~ConfigTest() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& text) {
    const std::string path = folder_ + "/tensord.toml";
    std::ofstream(path) << text;
    return path;
  }
  std::string Error(const std::map<std::string, std::string>& flags, const std::string& file = "") {
    const auto config = LoadConfig(flags, file);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(config.status().message());
  }
  std::string folder_;
};

TEST_F(ConfigTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const std::string file =
      File("cxx = 'file'\nworkers = 3\nstore_limit = '2GB'\nmax_waiting = 7\n");
  setenv("TENSORD_CXX", "env", 1);
  setenv("TENSORD_WORKERS", "4", 1);
  const auto config = LoadConfig({{"cxx", "flag"}}, file);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->cxx, "flag");
  EXPECT_EQ(config->workers, 4u);
  EXPECT_EQ(config->store_limit, 2ull << 30);
  EXPECT_EQ(config->store, folder_ + "/.cache/tensord");
  EXPECT_EQ(config->sources.at("cxx"), "flag --cxx");
  EXPECT_EQ(config->sources.at("workers"), "TENSORD_WORKERS");
  EXPECT_EQ(config->sources.at("max_waiting"), file);
  EXPECT_EQ(config->sources.at("store"), "default");
  EXPECT_THAT(PrintConfig(*config), AllOf(HasSubstr("# TENSORD_WORKERS"), HasSubstr("\"flag\"")));
}

TEST_F(ConfigTest, NvrtcIsAText) {
  EXPECT_EQ(LoadConfig({}, "")->nvrtc, "");
  setenv("TENSORD_NVRTC", "/env/lib", 1);
  EXPECT_EQ(LoadConfig({}, File("nvrtc = '/file/lib'\n"))->nvrtc, "/env/lib");
  EXPECT_EQ(LoadConfig({{"nvrtc", "/flag/lib"}}, "")->nvrtc, "/flag/lib");
}

TEST_F(ConfigTest, ReadsTheFileOfTheUser) {
  std::filesystem::create_directories(folder_ + "/.config/tensord");
  std::ofstream(folder_ + "/.config/tensord/tensord.toml") << "log_level = 'debug'\n";
  EXPECT_EQ(LoadConfig({}, "")->log_level, "debug");
}

TEST_F(ConfigTest, APasswordInAUrlIsNotShown) {
  const std::pair<const char*, const char*> urls[] = {
      {"redis://me:secret@host:1/2", "\"redis://me:***@host:1/2\""},
      {"rediss://:sec@ret@host", "\"rediss://:***@host\""},
      {"redis://me@host:1", "\"redis://me@host:1\""},
      {"redis://host:1", "\"redis://host:1\""},
      {"file:///a:b@c", "\"file:///a:b@c\""},
      {"", "\"\""},
  };
  for (const auto& [url, shown] : urls) {
    const auto config = LoadConfig({{"fleet", url}}, "");
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->fleet, url);
    EXPECT_THAT(PrintConfig(*config), HasSubstr(shown));
  }
}

TEST_F(ConfigTest, ErrorsNameKeyAndOrigin) {
  EXPECT_THAT(Error({{"workers", "many"}}), AllOf(HasSubstr("workers"), HasSubstr("--workers")));
  EXPECT_THAT(Error({{"workers", "1000"}}), HasSubstr("from 0 to 256"));
  EXPECT_THAT(Error({{"store_limit", "lots"}}), HasSubstr("512MB or 20GB"));
  EXPECT_THAT(Error({{"log_level", "loud"}}), AllOf(HasSubstr("log_level"), HasSubstr("trace")));
  EXPECT_THAT(Error({{"store", "relative"}}), HasSubstr("absolute path"));
  EXPECT_THAT(Error({{"address", "localhost:80"}}), HasSubstr("Unix socket"));
  EXPECT_THAT(Error({{"ui", "0.0.0.0:9465"}}), AllOf(HasSubstr("ui"), HasSubstr("127.0.0.1:PORT")));
  EXPECT_TRUE(LoadConfig({{"ui", "9465"}}, "").ok());
  EXPECT_THAT(Error({{"metrics_address", "everywhere"}}),
              AllOf(HasSubstr("--metrics-address"), HasSubstr("127.0.0.1:9464")));
  EXPECT_THAT(Error({{"address", "/" + std::string(200, 'x')}}), HasSubstr("too long"));
  EXPECT_THAT(Error({}, File("colour = 'red'\n")), AllOf(HasSubstr(":1:"), HasSubstr("'colour'")));
  EXPECT_THAT(Error({}, File("\ncxx = = 1\n")), HasSubstr(":2:"));
  EXPECT_THAT(Error({}, File("cxx = [1]\n")), HasSubstr("cxx"));
  EXPECT_THAT(Error({}, folder_ + "/none.toml"), HasSubstr("cannot read"));
  setenv("TENSORD_WORKERS", "x", 1);
  EXPECT_THAT(Error({}), HasSubstr("TENSORD_WORKERS"));
}

TEST_F(ConfigTest, APortKeepsSomebodyOut) {
  std::map<std::string, std::string> flags = {{"listen_tls", "127.0.0.1:7464"}};
  EXPECT_THAT(Error(flags), AllOf(HasSubstr("--listen-tls"), HasSubstr("set listen_cert")));
  flags["listen_cert"] = "/cert";
  EXPECT_THAT(Error(flags), HasSubstr("listen_key"));
  flags["listen_key"] = "/key";
  EXPECT_THAT(Error(flags), AllOf(HasSubstr("set listen_ca"), HasSubstr("listen_token_file")));
  for (const char* key : {"listen_ca", "listen_token_file"}) {
    auto some = flags;
    some[key] = "/file";
    EXPECT_TRUE(LoadConfig(some, "").ok()) << key;
    some.erase("listen_tls");
    EXPECT_THAT(Error(some), HasSubstr("set listen_tls too"));
    some["listen_tls"] = "everywhere";
    EXPECT_THAT(Error(some), HasSubstr("0.0.0.0:7464"));
  }
  EXPECT_THAT(Error({{"address", "tls://h:1"}}), HasSubstr("listen_tls"));
}

TEST(AddressTest, OfTheNetwork) {
  const std::pair<const char*, const char*> addresses[] = {{"7464", "127.0.0.1:7464"},
                                                           {"0.0.0.0:0", "0.0.0.0:0"},
                                                           {"host.example:1", "host.example:1"},
                                                           {"[::1]:65535", "[::1]:65535"}};
  for (const auto& [text, expected] : addresses) {
    const auto parsed = ParseNetworkAddress(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(parsed->ToString(), expected);
  }
  EXPECT_EQ(ParseNetworkAddress("[::1]:1")->host, "::1");
  for (const char* bad : {"", ":1", "host", "host:", "host:65536", "host:-1", "::1:1", "[host]:1",
                          "[::1:1", "a/b:1", "me@host:1", "host: 1x"}) {
    EXPECT_FALSE(ParseNetworkAddress(bad).ok()) << bad;
  }
  EXPECT_EQ(ParseTlsAddress("tls://host:1")->ToString(), "host:1");
  for (const char* bad : {"host:1", "tls://host", "tls://1", "tls://", "unix:/a", "tls://h:1/"}) {
    EXPECT_FALSE(ParseTlsAddress(bad).ok()) << bad;
  }
}

TEST(AddressTest, AcceptsEveryFormOfAUnixSocket) {
  for (const char* address : {"unix:/a/b.sock", "unix:///a/b.sock", "/a/b.sock"}) {
    EXPECT_EQ(*SocketPath(address), "/a/b.sock") << address;
  }
  EXPECT_FALSE(SocketPath("unix:relative").ok());
  EXPECT_FALSE(SocketPath("").ok());
}

TEST(ParseBytesTest, Units) {
  EXPECT_EQ(*ParseBytes("0"), 0u);
  EXPECT_EQ(*ParseBytes("512"), 512u);
  EXPECT_EQ(*ParseBytes("1.5 GiB"), 3ull << 29);
  EXPECT_EQ(*ParseBytes("10mb"), 10u << 20);
  for (const char* bad : {"", "GB", "-1", "1XB", "1e30GB", "99999999TB"}) {
    EXPECT_FALSE(ParseBytes(bad).ok()) << bad;
  }
}

}  // namespace config_test
}  // namespace tensord::server
