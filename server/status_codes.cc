#include "server/status_codes.h"

#include <string>

namespace tensord::server {

// Both sides use the canonical numbers. DataLoss stays within the daemon as a rule (what is damaged
// is compiled again); a client that sees it treats it as any failure.
grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace tensord::server
