// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/status_codes.h"

#include <string>

namespace tensord::server {

// absl and gRPC use the canonical numbers. DataLoss stays within the daemon as a rule (what is
// damaged is compiled again); a client that sees it treats it as any failure.
grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace tensord::server
