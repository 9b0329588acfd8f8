// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "server/statistics/metrics.h"
#include "tests/unit/server/token_folder.h"

namespace tensord::server {
namespace gate_test {

using ::testing::HasSubstr;

class GateTest : public TokenFolder {
 protected:
  grpc::Status Ask(Gate& gate, const std::string& authorization,
                   const std::string& method = "/tensord.v1.Compiler/Compile") {
    Gate::InputMetadata brought;
    if (!method.empty()) brought.emplace(":path", method);
    if (!authorization.empty()) brought.emplace("authorization", authorization);
    consumed_.clear();
    return gate.Process(brought, nullptr, &consumed_, nullptr);
  }

  Metrics metrics_;
  Gate::OutputMetadata consumed_;
};

TEST_F(GateTest, WhoBringsTheTokenIsLetIn) {
  Write(kToken);
  Gate gate(*TokenFile::Open(path_), &metrics_);
  EXPECT_TRUE(Ask(gate, "Bearer " + kToken).ok());
  EXPECT_EQ(consumed_.count("authorization"), 1u);  // no method sees it
  EXPECT_EQ(metrics_.calls_unauthenticated, 0u);
  for (const std::string& wrong :
       {std::string(), kToken, "Bearer " + kOther, std::string("Bearer"), "bearer " + kToken}) {
    const grpc::Status status = Ask(gate, wrong);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << wrong;
    EXPECT_THAT(status.error_message(), HasSubstr("TENSORD_TOKEN_FILE"));
    EXPECT_EQ(status.error_message().find(kToken), std::string::npos);
  }
  EXPECT_EQ(metrics_.calls_unauthenticated, 5u);
}

TEST_F(GateTest, AStrangerDoesNotLearnWhereTheTokenLies) {
  Write(kToken);
  Gate gate(*TokenFile::Open(path_), &metrics_);
  std::filesystem::remove(path_);
  const grpc::Status status = Ask(gate, "Bearer " + kToken);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(status.error_message().find(path_), std::string::npos);
}

TEST_F(GateTest, WithoutTokensTheCertificateIsEnough) {
  Gate gate(nullptr, &metrics_);
  EXPECT_TRUE(Ask(gate, "").ok());
  EXPECT_TRUE(Ask(gate, "Bearer anything").ok());
  EXPECT_EQ(Ask(gate, "", "/tensord.v1.Compiler/OpenPage").error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  // Of a newer client, as where it calls by the socket.
  for (const char* unknown : {"", "/tensord.v1.Compiler/CompileX"}) {
    EXPECT_EQ(Ask(gate, "", unknown).error_code(), grpc::StatusCode::UNIMPLEMENTED) << unknown;
  }
  EXPECT_EQ(metrics_.calls_unauthenticated, 0u);
}

// Whoever adds a method says in gate.cc whether the network may call it, or here that it may not.
TEST(GateMethodsTest, EachHasBeenThoughtOf) {
  const std::set<std::string> closed = {"OpenPage"};
  const auto* service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName("tensord.v1.Compiler");
  ASSERT_NE(service, nullptr);
  for (int i = 0; i < service->method_count(); ++i) {
    const std::string name(service->method(i)->name());
    EXPECT_EQ(OpenToTheNetwork("/tensord.v1.Compiler/" + name), closed.count(name) == 0) << name;
  }
  for (const char* other :
       {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "Compile",
        "/tensord.v1.Compiler/", "/tensord.v1.Compiler/CompileX", ""}) {
    EXPECT_FALSE(OpenToTheNetwork(other)) << other;
  }
}

TEST(LogThrottleTest, SaysHowOftenItWasInBetween) {
  LogThrottle throttle(absl::Seconds(60));
  const absl::Time start = absl::UnixEpoch();
  EXPECT_EQ(throttle.Count(start), 1u);
  EXPECT_EQ(throttle.Count(start + absl::Seconds(1)), 0u);
  EXPECT_EQ(throttle.Count(start + absl::Seconds(59)), 0u);
  EXPECT_EQ(throttle.Count(start + absl::Seconds(60)), 3u);
  EXPECT_EQ(throttle.Count(start + absl::Seconds(61)), 0u);
}

}  // namespace gate_test
}  // namespace tensord::server
