// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/str_cat.h>

#include <ctime>

#include "server/ctl/commands.h"
#include "server/ctl/view/table.h"

namespace tensord::server {
namespace {

const std::vector<std::string> kCounted = {">FOUND",  ">COMPILED", ">JOINED",   ">FAILED",
                                           ">WAITED", ">SERVED",   ">CAPTURES", ">LAST"};

// As the columns of kCounted.
std::vector<std::string> Counted(const v1::JobCounts& counts, int64_t last_unix) {
  return {absl::StrCat(counts.hits()),
          absl::StrCat(counts.compiled()),
          absl::StrCat(counts.joined()),
          absl::StrCat(counts.failed()),
          HumanNanoseconds(counts.waited_nanoseconds()),
          absl::StrCat(counts.frame_hits()),
          absl::StrCat(counts.captures()),
          HumanAge(time(nullptr) - last_unix)};
}

std::vector<std::string> Joined(std::vector<std::string> head,
                                const std::vector<std::string>& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

}  // namespace

int Jobs(const Client& client) {
  v1::ListJobsReply reply;
  if (const int code = Ask(client, v1::ListJobsRequest(), &reply); code != kExitOk) return code;
  if (client.json) return PrintJson(reply), kExitOk;
  Table table(Joined({"JOB", ">PROCESSES"}, kCounted));
  for (const v1::JobSummary& job : reply.jobs()) {
    table.Add(Joined({job.job().empty() ? "(none)" : job.job(), absl::StrCat(job.processes())},
                     Counted(job.counts(), job.last_unix())));
  }
  Print(table.ToString());
  return kExitOk;
}

int ShowJob(const Client& client, const std::string& job) {
  v1::GetJobRequest request;
  request.set_job(job);
  v1::JobDetail reply;
  if (const int code = Ask(client, request, &reply); code != kExitOk) return code;
  if (client.json) return PrintJson(reply), kExitOk;
  Table table(Joined(Joined({">RANK", "HOST", ">PROCESS"}, kCounted), {"BRIDGE"}));
  for (const v1::JobProcess& process : reply.processes()) {
    const v1::Caller& caller = process.caller();
    table.Add(
        Joined(Joined({absl::StrCat(caller.rank()), caller.host(), absl::StrCat(caller.pid())},
                      Counted(process.counts(), process.last_unix())),
               {caller.bridge()}));
  }
  Print(table.ToString());
  return kExitOk;
}

}  // namespace tensord::server
