// SPDX-License-Identifier: Apache-2.0
// Small facts about a frame, by which it is found and listed. The store does not interpret them.
#ifndef TENSORD_SERVER_STORE_FRAME_FACTS_H_
#define TENSORD_SERVER_STORE_FRAME_FACTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tensord::store {

// A code is entered behind another by many jobs, and by each from a few places.
inline constexpr size_t kMaxBehind = 16;

struct FrameFacts {
  std::string code;         // digest of 32 bytes
  std::string environment;  // likewise
  std::string module;       // the code's, for people
  std::string qualified_name;
  uint32_t guards = 0;
  uint32_t graphs = 0;
  uint32_t inlined = 0;
  std::vector<std::string> behind;  // digests of codes from which jobs came here, oldest first
};

// As they stand in a signed record, from which the index has them again when it is lost.
std::string Encode(const FrameFacts& facts);
// DataLoss: these are no facts of a frame.
absl::StatusOr<FrameFacts> DecodeFrameFacts(std::string_view bytes);

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_FRAME_FACTS_H_
