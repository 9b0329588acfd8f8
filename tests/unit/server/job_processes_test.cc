// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_processes.h"

#include <gtest/gtest.h>

#include <string>

namespace tensord::server {
namespace job_processes_test {

v1::Caller CallerOf(const std::string& job, uint32_t pid, uint32_t rank = 0) {
  v1::Caller caller;
  caller.set_job(job);
  caller.set_host("host");
  caller.set_pid(pid);
  caller.set_rank(rank);
  return caller;
}

v1::JobRequest Request(const std::string& outcome, uint64_t nanoseconds = 5) {
  v1::JobRequest request;
  request.set_outcome(outcome);
  request.set_nanoseconds(nanoseconds);
  return request;
}

v1::ListJobsReply List(const JobProcesses& processes) {
  v1::ListJobsReply reply;
  processes.List(&reply);
  return reply;
}

v1::JobDetail Get(const JobProcesses& processes, const std::string& job) {
  v1::GetJobRequest request;
  request.set_job(job);
  v1::JobDetail reply;
  EXPECT_TRUE(processes.Get(request, &reply).ok());
  return reply;
}

TEST(JobProcessesTest, CountsByProcessAndSumsByJob) {
  JobProcesses processes;
  processes.Answered(CallerOf("a", 11, 1), Request("compiled", 7));
  processes.Answered(CallerOf("a", 10, 0), Request("joined"));
  processes.Answered(CallerOf("b", 12), Request("failed"));
  processes.Answered(CallerOf("a", 10, 0), Request("hit"));
  processes.AskedForFrames(CallerOf("a", 10, 0), /*found=*/true, /*captures=*/false);
  processes.AskedForFrames(CallerOf("a", 11, 1), /*found=*/false, /*captures=*/true);
  processes.Served(CallerOf("a", 10, 0), 3);

  const v1::ListJobsReply list = List(processes);
  ASSERT_EQ(list.jobs_size(), 2);
  const v1::JobSummary& a = list.jobs(0);
  EXPECT_EQ(a.job(), "a");
  EXPECT_EQ(a.processes(), 2u);
  EXPECT_EQ(a.counts().hits(), 1u);
  EXPECT_EQ(a.counts().joined(), 1u);
  EXPECT_EQ(a.counts().compiled(), 1u);
  EXPECT_EQ(a.counts().waited_nanoseconds(), 17u);
  EXPECT_EQ(a.counts().frames_found(), 1u);
  EXPECT_EQ(a.counts().frames_not_found(), 1u);
  EXPECT_EQ(a.counts().captures(), 1u);
  EXPECT_EQ(a.counts().frame_hits(), 3u);
  EXPECT_EQ(list.jobs(1).counts().failed(), 1u);

  const v1::JobDetail detail = Get(processes, "a");
  ASSERT_EQ(detail.processes_size(), 2);
  EXPECT_EQ(detail.processes(0).caller().rank(), 0u);
  EXPECT_EQ(detail.processes(1).caller().pid(), 11u);
  ASSERT_EQ(detail.processes(0).requests_size(), 2);
  EXPECT_EQ(detail.processes(0).requests(1).outcome(), "hit");
}

TEST(JobProcessesTest, CountsWhatProcessesHave) {
  JobProcesses processes;
  const std::string python = "python, because there is no C++ compiler";
  for (uint32_t pid = 1; pid <= 4; ++pid) {
    v1::Caller caller = CallerOf("a", pid);
    if (pid != 4) caller.set_bridge(pid == 1 ? "native" : python);
    processes.Answered(caller, Request("hit"));
  }
  v1::ListJobsReply list = List(processes);
  ASSERT_EQ(list.bridges_size(), 2);
  EXPECT_EQ(list.bridges(0).bridge(), python);
  EXPECT_EQ(list.bridges(0).processes(), 2u);
  EXPECT_EQ(list.bridges(1).bridge(), "native");

  // The extension was built meanwhile.
  for (uint32_t pid = 2; pid <= 3; ++pid) {
    v1::Caller caller = CallerOf("a", pid);
    caller.set_bridge("native");
    processes.AskedForFrames(caller, /*found=*/true, /*captures=*/false);
  }
  list = List(processes);
  ASSERT_EQ(list.bridges_size(), 1);
  EXPECT_EQ(list.bridges(0).processes(), 3u);
}

TEST(JobProcessesTest, KeepsTheLast) {
  JobProcesses processes(2);
  for (uint32_t pid = 1; pid <= 3; ++pid) processes.Answered(CallerOf("", pid), Request("hit"));
  EXPECT_EQ(List(processes).jobs(0).processes(), 2u);
  EXPECT_EQ(Get(processes, "").processes(0).caller().pid(), 2u);
  for (uint64_t i = 0; i < 40; ++i) processes.Answered(CallerOf("", 3), Request("hit", i));
  const v1::JobProcess process = Get(processes, "").processes(1);
  ASSERT_EQ(process.requests_size(), 32);
  EXPECT_EQ(process.requests(31).nanoseconds(), 39u);
  EXPECT_EQ(process.counts().hits(), 41u);
}

TEST(JobProcessesTest, NobodyHasAsked) {
  const JobProcesses processes;
  v1::GetJobRequest request;
  request.set_job("a");
  v1::JobDetail reply;
  const absl::Status status = processes.Get(request, &reply);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no process of the job 'a' has asked since the daemon's start");
}

TEST(JobProcessesTest, LongTextsAreNoNames) {
  JobProcesses processes;
  processes.Answered(CallerOf(std::string(300, 'x'), 1), Request("hit"));
  EXPECT_EQ(List(processes).jobs(0).job(), "");
}

}  // namespace job_processes_test
}  // namespace tensord::server
