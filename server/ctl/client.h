// SPDX-License-Identifier: Apache-2.0
// tensorctl's connection to a daemon, and what every command prints with. gRPC stays in client.cc.
#ifndef TENSORD_SERVER_CTL_CLIENT_H_
#define TENSORD_SERVER_CTL_CLIENT_H_

#include <google/protobuf/message.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "tensord/v1/requests.pb.h"

// Of service.proto and stats.proto, which few commands read.
namespace tensord::v1 {
class GetStatsRequest;
class Stats;
class StatsUpdate;
class WatchStatsRequest;
}  // namespace tensord::v1

namespace tensord::server {

inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnreachable = 3;

struct Connection;

// Files, for an address with TLS. Empty: the system's authorities, and nothing to show.
struct TlsFiles {
  std::string ca;
  std::string cert, key;
  std::string token;
};

struct Client {
  std::shared_ptr<Connection> connection;
  std::string address;
  TlsFiles tls;
  bool json = false;  // print for programs
};

// InvalidArgument: `client.address` is neither a Unix socket nor tls://host:port, or one of the
// files cannot be read. Nothing is sent yet.
absl::Status Connect(Client& client);

// Makes one call. Prints what went wrong and returns the exit code.
int Ask(const Client& client, const v1::GetStatsRequest& request, v1::Stats* reply);
int Ask(const Client& client, const v1::ListProgramsRequest& request, v1::ListProgramsReply* reply);
int Ask(const Client& client, const v1::GetProgramRequest& request, v1::ProgramDetail* reply);
int Ask(const Client& client, const v1::ListFramesRequest& request, v1::ListFramesReply* reply);
int Ask(const Client& client, const v1::GetFrameRequest& request, v1::StoredFrame* reply);
int Ask(const Client& client, const v1::ListMissesRequest& request, v1::ListMissesReply* reply);
// The compiles under way now.
int Ask(const Client& client, const v1::WatchCompilesRequest& request, v1::CompilesUpdate* reply);
int Ask(const Client& client, const v1::ListJobsRequest& request, v1::ListJobsReply* reply);
int Ask(const Client& client, const v1::GetJobRequest& request, v1::JobDetail* reply);
int Ask(const Client& client, const v1::OpenPageRequest& request, v1::OpenPageReply* reply);
int Ask(const Client& client, const v1::GetTracesRequest& request, v1::Traces* reply);
int Ask(const Client& client, const v1::GetProfilesRequest& request, v1::Profiles* reply);
// The compilers of the daemon's host. When it cannot be told (every worker is busy), the one entry
// says why.
v1::ToolchainList GetToolchains(const Client& client);
// Who asks; nothing where the daemon does not say.
v1::ListJobsReply GetJobs(const Client& client);

// The daemon's statistics at an interval.
class StatsWatch {
 public:
  // The client outlives it.
  StatsWatch(const Client& client, const v1::WatchStatsRequest& request);
  ~StatsWatch();
  // Waits for the next. False: there is none, for what Finish says.
  bool Read(v1::StatsUpdate* update);
  // Ends it, from any thread: Read returns false.
  void Stop();
  // Prints what went wrong, unless it was stopped, and returns the exit code.
  int Finish();

 private:
  struct Call;
  const Client& client_;
  std::unique_ptr<Call> call_;
};

// The bytes of a key's first hex digits. False, and the reason printed: these are none.
bool ReadKey(const std::string& hex, std::string* prefix);

void Print(const std::string& text);
std::string JsonText(const google::protobuf::Message& message);
void PrintJson(const google::protobuf::Message& message);
void PrintJsonLine(const google::protobuf::Message& message);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_CLIENT_H_
