// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/to_json.h"

#include <google/protobuf/util/json_util.h>

namespace tensord::server {

absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message, bool pretty) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = pretty;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string out;
  const auto status = google::protobuf::util::MessageToJsonString(message, &out, options);
  if (!status.ok()) return absl::InternalError(status.ToString());
  return out;
}

}  // namespace tensord::server
