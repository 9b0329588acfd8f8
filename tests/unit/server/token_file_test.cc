// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/server/token_folder.h"

namespace tensord::server {
namespace token_file_test {

using ::testing::HasSubstr;

class TokenFileTest : public TokenFolder {
 protected:
  std::string Refused() { return std::string(TokenFile::Open(path_).status().message()); }
  bool Takes(TokenFile& file, const std::string& token) {
    const absl::Status status = file.Check("Bearer " + token);
    EXPECT_TRUE(status.ok() || absl::IsUnauthenticated(status)) << status;
    return status.ok();
  }
};

TEST_F(TokenFileTest, EachLineIsAToken) {
  Write(kToken + "\n\n  " + kOther + "\t");
  auto file = *TokenFile::Open(path_);
  EXPECT_TRUE(Takes(*file, kToken));
  EXPECT_TRUE(Takes(*file, kOther));
  for (const std::string& wrong :
       {std::string(), kToken + "a", kToken.substr(1), kToken + "\n" + kOther, std::string(" ")}) {
    EXPECT_FALSE(Takes(*file, wrong)) << wrong;
  }
  EXPECT_FALSE(file->Check("").ok());
  EXPECT_FALSE(file->Check(kToken).ok());
}

TEST_F(TokenFileTest, IsReadAgainWhenItChanges) {
  Write(kToken);
  auto file = *TokenFile::Open(path_);
  Write(kOther);
  EXPECT_FALSE(Takes(*file, kToken));
  EXPECT_TRUE(Takes(*file, kOther));
  // Whatever cannot be used lets nobody in, also who was let in before.
  Write("short");
  EXPECT_TRUE(absl::IsFailedPrecondition(file->Check("Bearer " + kOther)));
  Write(kOther, 0644);
  EXPECT_TRUE(absl::IsFailedPrecondition(file->Check("Bearer " + kOther)));
  std::filesystem::permissions(path_, std::filesystem::perms(0600));
  EXPECT_TRUE(Takes(*file, kOther));
  std::filesystem::remove(path_);
  EXPECT_TRUE(absl::IsFailedPrecondition(file->Check("Bearer " + kOther)));
  Write(kToken);
  EXPECT_TRUE(Takes(*file, kToken));
}

TEST_F(TokenFileTest, ASecretThatIsNone) {
  EXPECT_THAT(Refused(), HasSubstr("No such file"));
  for (const int mode : {0604, 0620, 0602, 0601}) {
    Write(kToken, mode);
    EXPECT_THAT(Refused(), HasSubstr("chmod 600")) << mode;
  }
  for (const int mode : {0400, 0600, 0440, 0640}) {
    Write(kToken, mode);
    EXPECT_EQ(Refused(), "") << mode;
  }
  Write("");
  EXPECT_THAT(Refused(), HasSubstr("openssl rand -hex 32"));
  Write(kToken + "\nshort-and-secret");
  EXPECT_THAT(Refused(), HasSubstr("16 characters"));
  EXPECT_EQ(Refused().find("short-and-secret"), std::string::npos);
}

}  // namespace token_file_test
}  // namespace tensord::server
