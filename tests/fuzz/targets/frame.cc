// SPDX-License-Identifier: Apache-2.0
// A frame as a job puts it: what the daemon takes, jobs can read.
#include <string>

#include "base/check.h"
#include "server/frames/check_frame.h"
#include "tensord/v1/requests.pb.h"
#include "tests/fuzz/targets/target.h"

namespace tensord::fuzz {
namespace {

void Run(std::string_view input) {
  v1::PutFrameRequest request;
  if (!request.mutable_frame()->ParseFromArray(input.data(), static_cast<int>(input.size()))) {
    return;
  }
  // The request itself has come over the wire.
  if (!v1::PutFrameRequest().ParseFromString(request.SerializeAsString())) return;
  const absl::Status status = server::CheckFrame(request.frame());
  if (!status.ok()) {
    TENSORD_CHECK(absl::IsInvalidArgument(status) && !status.message().empty(), status.ToString());
    return;
  }
  v1::FindFramesReply reply;
  *reply.add_frames()->mutable_frame() = request.frame();
  v1::FindFramesReply read;
  TENSORD_CHECK(read.ParseFromString(reply.SerializeAsString()), "nobody can read it");
  TENSORD_CHECK(read.frames(0).frame().SerializeAsString() == request.frame().SerializeAsString());
}

}  // namespace

const Target kFrameTarget = {
    .name = "frame",
    .run = Run,
    .message = []() -> const google::protobuf::Message* { return &v1::Frame::default_instance(); },
};

}  // namespace tensord::fuzz
