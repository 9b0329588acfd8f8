// SPDX-License-Identifier: Apache-2.0
// Where a frame is found: the code that it is of, and the environment in which that was captured.
#ifndef TENSORD_SERVER_FRAMES_FRAME_PLACE_H_
#define TENSORD_SERVER_FRAMES_FRAME_PLACE_H_

#include <string>

#include "server/store/frame_facts.h"
#include "tensord/v1/frame.pb.h"

namespace tensord::server {

// 32 bytes.
std::string DigestOf(const v1::FrameEnvironment& environment);
// Both are digests.
std::string PlaceOf(const std::string& code, const std::string& environment);
// `behind`: digest of the code from which the job came there, or empty.
store::FrameFacts FactsOf(const v1::Frame& frame, const std::string& behind);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_FRAMES_FRAME_PLACE_H_
