// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/client.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "server/rpc/address.h"
#include "server/rpc/to_json.h"
#include "server/store/blobs.h"
#include "tensord/v1/service.grpc.pb.h"

namespace tensord::server {

struct Connection {
  std::unique_ptr<v1::Compiler::Stub> stub;
};

namespace {

void SetTimeout(grpc::ClientContext& context, std::chrono::seconds timeout) {
  context.set_deadline(std::chrono::system_clock::now() + timeout);
}

// Prints what went wrong.
int ExitCode(const Client& client, const grpc::Status& status) {
  if (status.ok()) return kExitOk;
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    // A daemon that does not take a certificate says nothing, and closes the connection.
    const char* hint = IsTlsAddress(client.address) ? "; see --tls-ca, --tls-cert, --tls-key" : "";
    std::fprintf(stderr, "tensorctl: no daemon answers at %s (%s)%s\n", client.address.c_str(),
                 status.error_message().c_str(), hint);
    return kExitUnreachable;
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    // Such a daemon's own words, if it has any, name a method and no reason.
    std::fprintf(
        stderr,
        "tensorctl: the daemon at %s does not know this question: it is of another version "
        "than tensorctl (tensorctl status)\n",
        client.address.c_str());
    return kExitError;
  }
  std::fprintf(stderr, "tensorctl: %s\n", status.error_message().c_str());
  return kExitError;
}

template <class Request, class Reply>
using Method = grpc::Status (v1::Compiler::Stub::*)(grpc::ClientContext*, const Request&, Reply*);

template <class Request, class Reply>
int Call(const Client& client, Method<Request, Reply> method, const Request& request,
         Reply* reply) {
  grpc::ClientContext context;
  SetTimeout(context, std::chrono::seconds(10));
  return ExitCode(client, (client.connection->stub.get()->*method)(&context, request, reply));
}

std::string JsonOf(const google::protobuf::Message& message, bool pretty) {
  const auto json = ToJson(message, pretty);
  if (json.ok()) return *json;
  std::fprintf(stderr, "tensorctl: %s\n", std::string(json.status().message()).c_str());
  return "";
}

absl::Status ReadInto(const char* flag, const std::string& path, std::string* text) {
  if (path.empty()) return absl::OkStatus();
  auto read = store::ReadFile(path);
  if (!read.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", read.status().message()));
  }
  *text = *std::move(read);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const TlsFiles& files) {
  grpc::SslCredentialsOptions options;
  std::string tokens;
  TENSORD_RETURN_IF_ERROR(ReadInto("--tls-ca", files.ca, &options.pem_root_certs));
  TENSORD_RETURN_IF_ERROR(ReadInto("--tls-cert", files.cert, &options.pem_cert_chain));
  if (files.cert.empty() && !files.key.empty()) {
    return absl::InvalidArgumentError("--tls-key: there is no --tls-cert that it belongs to");
  }
  // One file may hold both.
  const std::string& key = files.key.empty() ? files.cert : files.key;
  TENSORD_RETURN_IF_ERROR(ReadInto("--tls-key", key, &options.pem_private_key));
  TENSORD_RETURN_IF_ERROR(ReadInto("--token-file", files.token, &tokens));
  auto credentials = grpc::SslCredentials(options);
  // The daemon's file may be at hand: the newest of its tokens stands first.
  const std::vector<std::string> lines = absl::StrSplit(tokens, '\n', absl::SkipWhitespace());
  if (lines.empty()) return credentials;
  const std::string token(absl::StripAsciiWhitespace(lines.front()));
  return grpc::CompositeChannelCredentials(credentials, grpc::AccessTokenCredentials(token));
}

struct Target {
  std::string uri;
  std::shared_ptr<grpc::ChannelCredentials> credentials;
};

absl::StatusOr<Target> TargetOf(const Client& client) {
  if (!IsTlsAddress(client.address)) {
    TENSORD_ASSIGN_OR_RETURN(const std::string path, SocketPath(client.address));
    return Target{"unix:" + path, grpc::InsecureChannelCredentials()};
  }
  TENSORD_ASSIGN_OR_RETURN(const NetworkAddress where, ParseTlsAddress(client.address));
  TENSORD_ASSIGN_OR_RETURN(auto credentials, Credentials(client.tls));
  // What went wrong is said in the status, too.
  gpr_set_log_function([](gpr_log_func_args*) {});
  return Target{"dns:///" + where.ToString(), std::move(credentials)};
}

}  // namespace

absl::Status Connect(Client& client) {
  TENSORD_ASSIGN_OR_RETURN(const Target target, TargetOf(client));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // The address says all, as for jobs: no proxy of the environment.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  client.connection = std::make_shared<Connection>(Connection{
      v1::Compiler::NewStub(grpc::CreateCustomChannel(target.uri, target.credentials, arguments))});
  return absl::OkStatus();
}

int Ask(const Client& client, const v1::GetStatsRequest& request, v1::Stats* reply) {
  return Call(client, &v1::Compiler::Stub::GetStats, request, reply);
}

int Ask(const Client& client, const v1::ListProgramsRequest& request,
        v1::ListProgramsReply* reply) {
  return Call(client, &v1::Compiler::Stub::ListPrograms, request, reply);
}

int Ask(const Client& client, const v1::GetProgramRequest& request, v1::ProgramDetail* reply) {
  return Call(client, &v1::Compiler::Stub::GetProgram, request, reply);
}

int Ask(const Client& client, const v1::ListFramesRequest& request, v1::ListFramesReply* reply) {
  return Call(client, &v1::Compiler::Stub::ListFrames, request, reply);
}

int Ask(const Client& client, const v1::GetFrameRequest& request, v1::StoredFrame* reply) {
  return Call(client, &v1::Compiler::Stub::GetFrame, request, reply);
}

int Ask(const Client& client, const v1::ListMissesRequest& request, v1::ListMissesReply* reply) {
  return Call(client, &v1::Compiler::Stub::ListMisses, request, reply);
}

int Ask(const Client& client, const v1::WatchCompilesRequest& request, v1::CompilesUpdate* reply) {
  grpc::ClientContext context;
  SetTimeout(context, std::chrono::seconds(10));
  const auto reader = client.connection->stub->WatchCompiles(&context, request);
  const bool has_one = reader->Read(reply);
  if (has_one) context.TryCancel();
  const grpc::Status status = reader->Finish();
  return has_one ? kExitOk : ExitCode(client, status);
}

int Ask(const Client& client, const v1::ListJobsRequest& request, v1::ListJobsReply* reply) {
  return Call(client, &v1::Compiler::Stub::ListJobs, request, reply);
}

int Ask(const Client& client, const v1::GetJobRequest& request, v1::JobDetail* reply) {
  return Call(client, &v1::Compiler::Stub::GetJob, request, reply);
}

int Ask(const Client& client, const v1::OpenPageRequest& request, v1::OpenPageReply* reply) {
  return Call(client, &v1::Compiler::Stub::OpenPage, request, reply);
}

int Ask(const Client& client, const v1::GetTracesRequest& request, v1::Traces* reply) {
  return Call(client, &v1::Compiler::Stub::GetTraces, request, reply);
}

int Ask(const Client& client, const v1::GetProfilesRequest& request, v1::Profiles* reply) {
  return Call(client, &v1::Compiler::Stub::GetProfiles, request, reply);
}

v1::ToolchainList GetToolchains(const Client& client) {
  v1::ToolchainList list;
  grpc::ClientContext context;
  SetTimeout(context, std::chrono::seconds(5));
  const grpc::Status status =
      client.connection->stub->ListToolchains(&context, v1::ListToolchainsRequest(), &list);
  if (!status.ok()) {
    v1::ToolchainState* state = list.add_toolchains();
    state->set_name("compilers");
    state->set_problem(status.error_message());
  }
  return list;
}

v1::ListJobsReply GetJobs(const Client& client) {
  v1::ListJobsReply reply;
  grpc::ClientContext context;
  SetTimeout(context, std::chrono::seconds(5));
  const grpc::Status status =
      client.connection->stub->ListJobs(&context, v1::ListJobsRequest(), &reply);
  return status.ok() ? reply : v1::ListJobsReply();
}

struct StatsWatch::Call {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::StatsUpdate>> reader;
  std::atomic<bool> stopped{false};
};

StatsWatch::StatsWatch(const Client& client, const v1::WatchStatsRequest& request)
    : client_(client), call_(std::make_unique<Call>()) {
  call_->reader = client.connection->stub->WatchStats(&call_->context, request);
}

StatsWatch::~StatsWatch() = default;

bool StatsWatch::Read(v1::StatsUpdate* update) { return call_->reader->Read(update); }

void StatsWatch::Stop() {
  call_->stopped = true;
  call_->context.TryCancel();
}

int StatsWatch::Finish() {
  const grpc::Status status = call_->reader->Finish();
  if (call_->stopped) return kExitOk;
  // A daemon that ends, ends who watches it too.
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    return ExitCode(client_, {grpc::StatusCode::UNAVAILABLE, "it has ended"});
  }
  return ExitCode(client_, status);
}

bool ReadKey(const std::string& hex, std::string* prefix) {
  constexpr size_t kLeastBytes = 4;
  // An odd number of digits: the last half byte cannot be asked for.
  *prefix = FromHex(hex.substr(0, hex.size() / 2 * 2));
  if (prefix->size() >= kLeastBytes) return true;
  std::fprintf(stderr, "tensorctl: '%s' is not a key: at least 8 hex digits are needed\n",
               hex.c_str());
  return false;
}

void Print(const std::string& text) { std::fputs(text.c_str(), stdout); }

std::string JsonText(const google::protobuf::Message& message) { return JsonOf(message, true); }

void PrintJson(const google::protobuf::Message& message) { Print(JsonText(message)); }

void PrintJsonLine(const google::protobuf::Message& message) {
  Print(JsonOf(message, false) + "\n");
}

}  // namespace tensord::server
