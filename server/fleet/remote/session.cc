// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/remote/session.h"

#include <absl/strings/ascii.h>
#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <absl/time/time.h>

#include <algorithm>
#include <utility>

#include "server/fleet/url.h"
#include "server/store/blobs.h"

namespace tensord::fleet {
namespace {

constexpr char kForm[] = "grpc[s]://user:password@host:port/instance";
constexpr int kVersion = 2;
// gRPC's servers and clients take messages of 4 MiB unless they are told otherwise; what stands
// beside the blobs needs some of it.
constexpr int kMostMessage = 4 << 20;
constexpr uint64_t kMostBatch = kMostMessage - (64 << 10);

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(
    const RemoteOptions& options) {
  if (!options.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions tls;
  if (!options.ca.empty()) {
    const auto read = store::ReadFile(options.ca);
    if (!read.ok()) {
      return absl::FailedPreconditionError(absl::StrCat("fleet_ca: ", read.status().message()));
    }
    tls.pem_root_certs = *read;
  }
  return grpc::SslCredentials(tls);
}

// The header's value: of a user and password, or of a token.
absl::StatusOr<std::string> Authorization(const RemoteOptions& options) {
  std::string password = options.password;
  if (!options.password_file.empty()) {
    const auto read = store::ReadFile(options.password_file);
    if (!read.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("fleet_password_file: ", read.status().message()));
    }
    password = std::string(absl::StripAsciiWhitespace(*read));
  }
  if (!options.user.empty()) {
    return absl::StrCat("Basic ", absl::Base64Escape(absl::StrCat(options.user, ":", password)));
  }
  return password.empty() ? "" : absl::StrCat("Bearer ", password);
}

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  // A session that failed is not to share its dead connection with the next one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // The URL says all: no proxy of the environment, no settings by DNS.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetMaxReceiveMessageSize(kMostMessage);
  return arguments;
}

}  // namespace

std::string RemoteOptions::ToString() const {
  return absl::StrCat(tls ? "grpcs://" : "grpc://", HostAndPort(host, port),
                      instance.empty() ? "" : "/", instance);
}

absl::StatusOr<RemoteOptions> ParseRemoteUrl(const std::string& text) {
  TENSORD_ASSIGN_OR_RETURN(Url url, ParseUrl(text, kForm));
  const bool tls = url.scheme == "grpcs";
  if ((url.scheme != "grpc" && !tls) || url.host.empty() || url.port.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(kForm, " is the form of it"));
  }
  RemoteOptions options;
  options.host = std::move(url.host);
  options.port = std::move(url.port);
  options.tls = tls;
  options.user = std::move(url.user);
  options.password = std::move(url.password);
  if (!url.path.empty()) options.instance = url.path.substr(1);
  return options;
}

absl::Status TierStatus(int code, const std::string& message) {
  const std::string text = absl::StrCat("gRPC says: ", message);
  switch (code) {
    case grpc::OK:
      return absl::OkStatus();
    case grpc::DEADLINE_EXCEEDED:
      return absl::DeadlineExceededError("it does not answer in time");
    case grpc::INVALID_ARGUMENT:
    case grpc::FAILED_PRECONDITION:
    case grpc::PERMISSION_DENIED:
    case grpc::UNAUTHENTICATED:
    case grpc::RESOURCE_EXHAUSTED:
      return absl::FailedPreconditionError(text);
    default:
      return absl::UnavailableError(text);
  }
}

RemoteSession::RemoteSession(std::shared_ptr<grpc::Channel> channel, std::string instance,
                             std::string authorization)
    : channel_(std::move(channel)),
      instance_(std::move(instance)),
      authorization_(std::move(authorization)),
      results_(reapi::ActionCache::NewStub(channel_)),
      blobs_(reapi::ContentAddressableStorage::NewStub(channel_)),
      streams_(google::bytestream::ByteStream::NewStub(channel_)) {}

absl::StatusOr<std::shared_ptr<RemoteSession>> RemoteSession::Open(const RemoteOptions& options,
                                                                   absl::Time deadline) {
  TENSORD_ASSIGN_OR_RETURN(auto credentials, Credentials(options));
  TENSORD_ASSIGN_OR_RETURN(std::string authorization, Authorization(options));
  auto channel = grpc::CreateCustomChannel("dns:///" + HostAndPort(options.host, options.port),
                                           credentials, Arguments());
  std::shared_ptr<RemoteSession> session(
      new RemoteSession(std::move(channel), options.instance, std::move(authorization)));
  TENSORD_RETURN_IF_ERROR(session->Greet(deadline));
  return session;
}

std::unique_ptr<grpc::ClientContext> RemoteSession::Context(absl::Time deadline) const {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(absl::ToChronoTime(deadline));
  if (!authorization_.empty()) context->AddMetadata("authorization", authorization_);
  return context;
}

absl::Status RemoteSession::Greet(absl::Time deadline) {
  reapi::GetCapabilitiesRequest request;
  request.set_instance_name(instance_);
  reapi::ServerCapabilities reply;
  TENSORD_RETURN_IF_ERROR(TierStatus(reapi::Capabilities::NewStub(channel_)->GetCapabilities(
      Context(deadline).get(), request, &reply)));
  if (reply.low_api_version().major() > kVersion || reply.high_api_version().major() < kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the server speaks Remote Execution API ", reply.low_api_version().major(),
                     " to ", reply.high_api_version().major(), ", not ", kVersion));
  }
  const reapi::CacheCapabilities& cache = reply.cache_capabilities();
  const auto& functions = cache.digest_functions();
  if (std::find(functions.begin(), functions.end(), reapi::DigestFunction::SHA256) ==
      functions.end()) {
    return absl::FailedPreconditionError("the server has no cache whose digests are SHA256");
  }
  takes_results_ = cache.action_cache_update_capabilities().update_enabled();
  most_batch_ = cache.max_batch_total_size_bytes() <= 0
                    ? kMostBatch
                    : std::min<uint64_t>(kMostBatch, cache.max_batch_total_size_bytes());
  return absl::OkStatus();
}

}  // namespace tensord::fleet
