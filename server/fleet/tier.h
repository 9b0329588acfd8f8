// SPDX-License-Identifier: Apache-2.0
// Where the daemons of a fleet leave objects for each other: a folder that hosts share, Redis, or
// whatever else can get and put bytes by name. A tier is trusted with nothing: what it gives is
// verified by who asked (exchange.h).
//
// Every function may be called from several threads, blocks, and is done soon after its deadline as
// far as the operating system lets it. Statuses: Unavailable and DeadlineExceeded say that the tier
// does not answer, or not as a tier does; FailedPrecondition that it refuses (rights, room).
#ifndef TENSORD_SERVER_FLEET_TIER_H_
#define TENSORD_SERVER_FLEET_TIER_H_

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace tensord::fleet {

// Names have the form "kind/<64 hex digits>".
struct Wanted {
  std::string name;
  uint64_t bytes = 0;  // what it has; 0: not known, but at most kMostUnknownBytes
};
inline constexpr uint64_t kMostUnknownBytes = 1 << 20;

struct Object {
  std::string name;
  std::string value;
  // What it is of no use without: a tier that removes what nobody asks for keeps these with it.
  std::vector<Wanted> needs;
};

class Tier {
 public:
  virtual ~Tier() = default;

  // For people; without secrets.
  virtual std::string Where() const = 0;

  // What there is under each name; nothing where there is none. What has not the wanted size is
  // given as it is, or up to a byte more than was wanted.
  virtual absl::StatusOr<std::vector<std::optional<std::string>>> Get(
      const std::vector<Wanted>& wanted, absl::Time deadline) = 0;
  // One after the other, over what is there. Nobody sees a part of an object.
  virtual absl::Status Put(const std::vector<Object>& objects, absl::Time deadline) = 0;

  // Puts `value` for a while unless there is one. Returns the value that is there now.
  virtual absl::StatusOr<std::string> Claim(const std::string& name, const std::string& value,
                                            absl::Duration lifetime, absl::Time deadline) = 0;
  // Removes it where it still has `value`.
  virtual absl::Status Release(const std::string& name, const std::string& value,
                               absl::Time deadline) = 0;
};

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_TIER_H_
