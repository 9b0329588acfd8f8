// SPDX-License-Identifier: Apache-2.0
#include "server/worker/thrown.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tensord::server {
namespace thrown_test {

TEST(StatusOfThrown, IsInternalWithTheWords) {
  EXPECT_TRUE(StatusOfThrown([] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(StatusOfThrown([] { return absl::NotFoundError("no pass"); }),
            absl::NotFoundError("no pass"));
  EXPECT_EQ(StatusOfThrown([]() -> absl::Status { throw std::out_of_range("map::at"); }),
            absl::InternalError("the compiler threw: map::at"));
  const absl::Status memory = StatusOfThrown([]() -> absl::Status { throw std::bad_alloc(); });
  EXPECT_EQ(memory.code(), absl::StatusCode::kInternal);
  EXPECT_NE(memory.message().find("job_memory"), absl::string_view::npos);
  EXPECT_TRUE(IsOutOfMemory(memory));
  EXPECT_FALSE(IsOutOfMemory(absl::InternalError("of another kind")));
}

}  // namespace thrown_test
}  // namespace tensord::server
