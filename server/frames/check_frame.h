// SPDX-License-Identifier: Apache-2.0
// What a daemon can say of a frame by itself, before it stores one: that it is whole, that its
// numbers lead somewhere, and that it says no more than this format has. Whether its guards hold
// and its graphs compile is found where it is used.
#ifndef TENSORD_SERVER_FRAMES_CHECK_FRAME_H_
#define TENSORD_SERVER_FRAMES_CHECK_FRAME_H_

#include "base/status.h"
#include "tensord/v1/frame.pb.h"

namespace tensord::server {

// InvalidArgument names the field: "guards[12].source: 77 is past the 40 sources".
absl::Status CheckFrame(const v1::Frame& frame);
// Of a frame or of a request for one: the format is ours, and nothing is missing.
absl::Status CheckEnvironment(const v1::FrameEnvironment& environment);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_FRAMES_CHECK_FRAME_H_
