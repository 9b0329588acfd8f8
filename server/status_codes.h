// The one place where a status becomes a gRPC code, and back.
#ifndef TENSORD_SERVER_STATUS_CODES_H_
#define TENSORD_SERVER_STATUS_CODES_H_

#include <grpcpp/support/status.h>

#include "base/status.h"

namespace tensord::server {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_STATUS_CODES_H_
