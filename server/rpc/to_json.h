// SPDX-License-Identifier: Apache-2.0
// Messages as JSON, for programs and the page: with the names of the protos, and every number.
#ifndef TENSORD_SERVER_RPC_TO_JSON_H_
#define TENSORD_SERVER_RPC_TO_JSON_H_

#include <google/protobuf/message.h>

#include <string>

#include "base/status.h"

namespace tensord::server {

// `pretty`: of several lines. Internal: the message has a text that is not UTF-8.
absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message, bool pretty = false);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_RPC_TO_JSON_H_
