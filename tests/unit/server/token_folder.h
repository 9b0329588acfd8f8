// SPDX-License-Identifier: Apache-2.0
// A file of tokens in a temporary folder.
#ifndef TENSORD_TESTS_UNIT_SERVER_TOKEN_FOLDER_H_
#define TENSORD_TESTS_UNIT_SERVER_TOKEN_FOLDER_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tensord::server {

class TokenFolder : public ::testing::Test {
 protected:
  TokenFolder() {
    char folder[] = "/tmp/tensord-token-test.XXXXXX";
    folder_ = mkdtemp(folder);
    path_ = folder_ + "/token";
  }
  ~TokenFolder() override { std::filesystem::remove_all(folder_); }

  // In place of what was there, as who replaces a secret does.
  void Write(const std::string& text, int mode = 0600) {
    std::ofstream(path_ + ".new") << text << "\n";
    std::filesystem::permissions(path_ + ".new", static_cast<std::filesystem::perms>(mode));
    std::filesystem::rename(path_ + ".new", path_);
  }

  const std::string kToken = std::string(32, 'a'), kOther = std::string(32, 'b');
  std::string folder_, path_;
};

}  // namespace tensord::server

#endif  // TENSORD_TESTS_UNIT_SERVER_TOKEN_FOLDER_H_
