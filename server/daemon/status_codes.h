// SPDX-License-Identifier: Apache-2.0
// The one place where a status becomes a gRPC code.
#ifndef TENSORD_SERVER_DAEMON_STATUS_CODES_H_
#define TENSORD_SERVER_DAEMON_STATUS_CODES_H_

#include <grpcpp/support/status.h>

#include "base/status.h"

namespace tensord::server {

grpc::Status ToGrpc(const absl::Status& status);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_STATUS_CODES_H_
