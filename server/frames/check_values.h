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
absl::Status CheckFunction(const v1::FunctionFacts& facts);
absl::Status CheckConstant(const v1::FrameConstant& constant);
absl::Status CheckConstants(const v1::FrameConstants& constants);
absl::Status CheckBytecode(const v1::FrameCode& code);
// Of start, stop and step; `field` is what holds them.
absl::Status CheckThree(absl::string_view field, const v1::FrameConstants& parts);
absl::Status CheckTensor(const v1::TensorFacts& tensor);

// A message that has fields of another format, wherever they are, says more than can be checked,
// and one that is nested too deeply cannot be read where it is part of an answer.
absl::Status CheckForm(const google::protobuf::Message& message);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_FRAMES_CHECK_VALUES_H_
