// SPDX-License-Identifier: Apache-2.0
// What jobs tell the daemon of themselves, spans and profiles: of programs that it knows alone, and
// no more than so much.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>

#include "base/sha256.h"
#include "server/daemon/daemon.h"
#include "tensord/v1/service.grpc.pb.h"
#include "tests/unit/server/daemon_testing.h"

namespace tensord::server {
namespace daemon_jobs_test {

class DaemonJobsTest : public DaemonTest {};

TEST_F(DaemonJobsTest, WhatJobsSayOfThemselvesIsBounded) {
  const pid_t pid = Start();
  auto stub = Connect();
  grpc::ClientContext greeting;
  v1::HelloReply hello;
  ASSERT_TRUE(stub->Hello(&greeting, {}, &hello).ok());
  EXPECT_TRUE(hello.takes_spans());
  v1::CompileRequest compile = Request({"a"});
  compile.mutable_caller()->set_pid(77);
  v1::CompileReply reply;
  ASSERT_TRUE(Compile(*stub, compile, &reply).ok());

  v1::PutSpansRequest request;
  request.mutable_caller()->set_pid(77);
  v1::JobSpans& program = *request.add_programs();
  program.set_request_id(reply.request_id());
  program.set_program_key(reply.program_key());
  v1::Span& span = *program.add_spans();
  span.set_name("load");
  span.set_track("program");
  span.set_process(v1::Span::JOB);
  span.set_pid(77);
  span.set_start_nanoseconds(static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count()));
  const auto put = [&](const v1::PutSpansRequest& spans) {
    grpc::ClientContext context;
    v1::PutSpansReply kept;
    const grpc::Status status = stub->PutSpans(&context, spans, &kept);
    return status.ok() ? static_cast<int>(kept.kept()) : -static_cast<int>(status.error_code());
  };
  v1::PutSpansRequest forged = request;
  forged.mutable_programs(0)->mutable_spans(0)->set_pid(1);
  EXPECT_EQ(put(forged), -static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
  v1::PutSpansRequest large = request;
  large.mutable_programs(0)->mutable_spans(0)->set_detail(std::string(1 << 20, 'x'));
  EXPECT_EQ(put(large), -static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED));
  EXPECT_EQ(put(request), 1);

  grpc::ClientContext asking;
  v1::GetTracesRequest wanted;
  wanted.set_key_prefix(reply.program_key());
  v1::Traces traces;
  ASSERT_TRUE(stub->GetTraces(&asking, wanted, &traces).ok());
  ASSERT_EQ(traces.requests_size(), 1);
  EXPECT_EQ(traces.requests(0).spans().rbegin()->name(), "load");
  kill(pid, SIGTERM);
  EXPECT_EQ(Wait(pid), kExitOk);
}

TEST_F(DaemonJobsTest, JobsPutProfilesOfProgramsThatItKnows) {
  pid_t pid = Start();
  auto stub = Connect();
  grpc::ClientContext greeting;
  v1::HelloReply hello;
  ASSERT_TRUE(stub->Hello(&greeting, {}, &hello).ok());
  EXPECT_TRUE(hello.takes_profiles());
  v1::CompileRequest compile = Request({"a"});
  compile.mutable_caller()->set_pid(77);
  v1::CompileReply reply;
  ASSERT_TRUE(Compile(*stub, compile, &reply).ok());

  v1::PutProfileRequest request;
  request.mutable_caller()->set_pid(77);
  v1::Profile& profile = *request.mutable_profile();
  profile.add_calls(1000);
  profile.add_gaps(0);
  profile.add_programs()->set_key(reply.program_key());
  const auto put = [&](const v1::PutProfileRequest& said) {
    grpc::ClientContext context;
    v1::PutProfileReply kept;
    const grpc::Status status = stub->PutProfile(&context, said, &kept);
    return status.ok() ? static_cast<int>(kept.id()) : -static_cast<int>(status.error_code());
  };
  v1::PutProfileRequest forged = request;
  forged.mutable_caller()->set_pid(78);
  forged.mutable_profile()->mutable_programs(0)->set_key(Sha256("no program"));
  EXPECT_EQ(put(forged), -static_cast<int>(grpc::StatusCode::FAILED_PRECONDITION));
  v1::PutProfileRequest wrong = request;
  wrong.mutable_profile()->clear_gaps();
  EXPECT_EQ(put(wrong), -static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
  v1::PutProfileRequest large = request;
  large.mutable_profile()->set_function(std::string(5 << 20, 'x'));
  EXPECT_EQ(put(large), -static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED));
  EXPECT_EQ(put(request), 1);

  const auto get = [&](const v1::GetProfilesRequest& wanted, v1::Profiles* profiles) {
    grpc::ClientContext context;
    return stub->GetProfiles(&context, wanted, profiles).error_code();
  };
  v1::GetProfilesRequest wanted;
  v1::Profiles profiles;
  wanted.set_key_prefix(reply.program_key());
  EXPECT_EQ(get(wanted, &profiles), grpc::StatusCode::OK);
  ASSERT_EQ(profiles.profiles_size(), 1);
  EXPECT_EQ(profiles.profiles(0).profile().calls(0), 1000u);
  wanted.set_key_prefix("abc");
  EXPECT_EQ(get(wanted, &profiles), grpc::StatusCode::INVALID_ARGUMENT);
  wanted.set_key_prefix("abcd");
  EXPECT_EQ(get(wanted, &profiles), grpc::StatusCode::NOT_FOUND);
  kill(pid, SIGTERM);
  EXPECT_EQ(Wait(pid), kExitOk);

  // The next daemon has been asked by nobody, and has the store.
  pid = Start();
  stub = Connect();
  EXPECT_EQ(put(forged), -static_cast<int>(grpc::StatusCode::FAILED_PRECONDITION));
  EXPECT_EQ(put(request), 1);
  kill(pid, SIGTERM);
  EXPECT_EQ(Wait(pid), kExitOk);
}

}  // namespace daemon_jobs_test
}  // namespace tensord::server
