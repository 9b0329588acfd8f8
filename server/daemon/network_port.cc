// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/network_port.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <absl/time/clock.h>
#include <grpc/support/log.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <spdlog/spdlog.h>

#include <map>
#include <string>
#include <utility>

#include "base/private_file.h"
#include "server/daemon/gate.h"
#include "server/daemon/log_throttle.h"
#include "server/daemon/token_file.h"
#include "server/rpc/address.h"

namespace tensord::server {
namespace {

// How often certificates are looked at, to find those that were replaced.
constexpr unsigned kLookSeconds = 5;
// What connects and says nothing holds a descriptor for so long, and so does who has no calls.
constexpr int kHandshakeMs = 10'000;
constexpr int kIdleMs = 60'000;
// Who was let in by a certificate that has expired since, or whose authority was replaced, has to
// be let in anew after so long; calls under way have as long again, which no compile takes.
constexpr int kAgeMs = 15 * 60'000;

absl::Status CannotUse(const char* key, const std::string& path) {
  const char* why = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return absl::FailedPreconditionError(
      absl::StrCat(key, ": cannot use ", path, ": ", why == nullptr ? "cannot read it" : why));
}

// gRPC reads the files itself, and would listen with those that nobody can be served with.
absl::Status CheckFiles(const Config& config) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()),
                                                                  &SSL_CTX_free);
  SSL_CTX* const ssl = context.get();
  ERR_clear_error();
  // A key with a password would be asked for at a terminal.
  SSL_CTX_set_default_passwd_cb(ssl, [](char*, int, int, void*) { return 0; });
  if (SSL_CTX_use_certificate_chain_file(ssl, config.listen_cert.c_str()) != 1) {
    return CannotUse("listen_cert", config.listen_cert);
  }
  if (const absl::Status status = CheckPrivateFile(config.listen_key); !status.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("listen_key: ", status.message()));
  }
  if (SSL_CTX_use_PrivateKey_file(ssl, config.listen_key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(ssl) != 1) {
    return CannotUse("listen_key", config.listen_key);
  }
  if (!config.listen_ca.empty() && SSL_CTX_load_verify_file(ssl, config.listen_ca.c_str()) != 1) {
    return CannotUse("listen_ca", config.listen_ca);
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> MakeCredentials(const Config& config) {
  namespace tls = grpc::experimental;
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      config.listen_key, config.listen_cert, config.listen_ca, kLookSeconds));
  options.watch_identity_key_cert_pairs();
  if (!config.listen_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

// How often a place in gRPC's sources was heard of, of which there are a few hundred.
class PlacesOfGrpc {
 public:
  LogThrottle& Of(const char* file, int line) {
    absl::MutexLock lock(&mutex_);
    return places_.try_emplace({file, line}).first->second;
  }

 private:
  absl::Mutex mutex_;
  std::map<std::pair<std::string, int>, LogThrottle> places_ ABSL_GUARDED_BY(mutex_);
};

// gRPC writes a line for each handshake that fails, as often as somebody likes to try. Each place
// counts for itself: who makes one error happen hides no other.
void ThrottleGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* said) {
    static auto* const places = new PlacesOfGrpc;
    if (said->severity != GPR_LOG_SEVERITY_ERROR) return;
    if (const uint64_t times = places->Of(said->file, said->line).Count(absl::Now()); times > 0) {
      spdlog::warn("event=grpc times={} last=\"{}\"", times,
                   absl::StrReplaceAll(said->message, {{"\"", "'"}, {"\n", " "}}));
    }
  });
}

}  // namespace

NetworkPort::NetworkPort(std::string host, std::string port, std::string asks_for,
                         std::shared_ptr<grpc::ServerCredentials> credentials)
    : host_(std::move(host)),
      port_(std::move(port)),
      asks_for_(std::move(asks_for)),
      credentials_(std::move(credentials)) {}

absl::StatusOr<std::unique_ptr<NetworkPort>> NetworkPort::Open(const Config& config,
                                                               Metrics* metrics) {
  TENSORD_ASSIGN_OR_RETURN(const NetworkAddress where, ParseNetworkAddress(config.listen_tls));
  TENSORD_RETURN_IF_ERROR(CheckFiles(config));
  std::string asks_for = config.listen_ca.empty() ? "" : "certificate";
  std::unique_ptr<TokenFile> tokens;
  if (!config.listen_token_file.empty()) {
    auto opened = TokenFile::Open(config.listen_token_file);
    if (!opened.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("listen_token_file: ", opened.status().message()));
    }
    tokens = *std::move(opened);
    absl::StrAppend(&asks_for, asks_for.empty() ? "" : " and ", "token");
  }
  auto credentials = MakeCredentials(config);
  credentials->SetAuthMetadataProcessor(std::make_shared<Gate>(std::move(tokens), metrics));
  ThrottleGrpcLog();
  return std::unique_ptr<NetworkPort>(
      new NetworkPort(where.host, where.port, std::move(asks_for), std::move(credentials)));
}

void NetworkPort::AddTo(grpc::ServerBuilder& builder) {
  builder.AddListeningPort(ToString(), credentials_, &taken_);
  // Two daemons on one port would share its calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, kAgeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, kAgeMs);
}

std::string NetworkPort::ToString() const {
  return NetworkAddress{host_, taken_ == 0 ? port_ : absl::StrCat(taken_)}.ToString();
}

}  // namespace tensord::server
