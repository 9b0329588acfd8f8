// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/gate.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "server/statistics/metrics.h"

namespace tensord::server {
namespace {

// What jobs ask, and what tensorctl reads. A new method is closed until it has been thought of.
constexpr std::string_view kOpen[] = {
    "/grpc.health.v1.Health/Check",        "/grpc.health.v1.Health/Watch",
    "/tensord.v1.Compiler/Compile",        "/tensord.v1.Compiler/CompileLarge",
    "/tensord.v1.Compiler/EndCapture",     "/tensord.v1.Compiler/FindFrames",
    "/tensord.v1.Compiler/GetBlob",        "/tensord.v1.Compiler/GetFrame",
    "/tensord.v1.Compiler/GetJob",         "/tensord.v1.Compiler/GetProgram",
    "/tensord.v1.Compiler/GetProfiles",    "/tensord.v1.Compiler/GetStats",
    "/tensord.v1.Compiler/GetTraces",      "/tensord.v1.Compiler/Hello",
    "/tensord.v1.Compiler/ListFrames",     "/tensord.v1.Compiler/ListJobs",
    "/tensord.v1.Compiler/ListMisses",     "/tensord.v1.Compiler/ListPrograms",
    "/tensord.v1.Compiler/ListToolchains", "/tensord.v1.Compiler/PutFrame",
    "/tensord.v1.Compiler/PutProfile",     "/tensord.v1.Compiler/PutSpans",
    "/tensord.v1.Compiler/UseFrames",      "/tensord.v1.Compiler/WatchCompiles",
    "/tensord.v1.Compiler/WatchStats",
};

// OpenPage opens a port of the daemon's host and gives the token for it.
constexpr std::string_view kClosed[] = {
    "/tensord.v1.Compiler/OpenPage",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
};

constexpr char kCalled[] = ":path";
constexpr char kAuthorization[] = "authorization";

std::string_view Brought(const Gate::InputMetadata& metadata, const char* name) {
  const auto found = metadata.find(name);
  if (found == metadata.end()) return "";
  return {found->second.data(), found->second.size()};
}

}  // namespace

bool OpenToTheNetwork(std::string_view method) {
  return std::find(std::begin(kOpen), std::end(kOpen), method) != std::end(kOpen);
}

grpc::Status Gate::Process(const InputMetadata& brought, grpc::AuthContext*,
                           OutputMetadata* consumed, OutputMetadata*) {
  const std::string_view authorization = Brought(brought, kAuthorization);
  if (!authorization.empty()) consumed->emplace(kAuthorization, authorization);
  if (tokens_ != nullptr) {
    if (const absl::Status let_in = tokens_->Check(authorization); !let_in.ok()) {
      ++metrics_->calls_unauthenticated;
      const std::string why(let_in.message());
      if (const uint64_t calls = refused_.Count(absl::Now()); calls > 0) {
        spdlog::warn("event=unauthenticated calls={} why=\"{}\"", calls, why);
      }
      // Who is not let in does not learn of the daemon's files.
      return {grpc::StatusCode::UNAUTHENTICATED,
              absl::IsUnauthenticated(let_in)
                  ? why
                  : "the daemon's token file lets nobody in, for reasons that its log has"};
    }
  }
  const std::string method(Brought(brought, kCalled));
  if (OpenToTheNetwork(method)) return grpc::Status::OK;
  if (std::find(std::begin(kClosed), std::end(kClosed), method) != std::end(kClosed)) {
    return {grpc::StatusCode::PERMISSION_DENIED,
            absl::StrCat(method, " is answered on the daemon's Unix socket alone")};
  }
  // Of a newer client, as on the socket.
  return {grpc::StatusCode::UNIMPLEMENTED, absl::StrCat(method, " is not known here")};
}

}  // namespace tensord::server
