// SPDX-License-Identifier: Apache-2.0
// Checks of the small messages of frame.proto that others are made of.
#ifndef TENSORD_SERVER_FRAMES_CHECK_VALUES_H_
#define TENSORD_SERVER_FRAMES_CHECK_VALUES_H_

#include "base/status.h"
#include "tensord/v1/frame.pb.h"

namespace tensord::server {

// InvalidArgument names the field within the message.
absl::Status CheckCode(const v1::CodeIdentity& code);
absl::Status CheckName(const v1::NamedObject& name);
absl::Status CheckClass(const v1::ClassFacts& facts);
absl::Status CheckConstant(const v1::FrameConstant& constant);
absl::Status CheckConstants(const v1::FrameConstants& constants);
absl::Status CheckTensor(const v1::TensorFacts& tensor);

// A message that has fields of another format, wherever they are, says more than can be checked.
bool HasUnknownFields(const google::protobuf::Message& message);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_FRAMES_CHECK_VALUES_H_
