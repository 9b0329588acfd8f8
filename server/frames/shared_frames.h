// SPDX-License-Identifier: Apache-2.0
// Frames between a store and a fleet: those of one place (a code in an environment) lie under one
// name, each a blob whose note says behind which codes it was entered.
#ifndef TENSORD_SERVER_FRAMES_SHARED_FRAMES_H_
#define TENSORD_SERVER_FRAMES_SHARED_FRAMES_H_

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/fleet/fleet.h"
#include "server/store/store.h"

namespace tensord::server {

class SharedFrames {
 public:
  // Both outlive it; `fleet` is null for none.
  SharedFrames(fleet::Fleet* fleet, store::Store* store) : fleet_(fleet), store_(store) {}

  bool Exist() const { return fleet_ != nullptr; }
  // Gives `keep` each frame of the place that the store lacks, as its bytes; one that it refuses is
  // left out. Then calls `done`: ok when there were some, stored now or before.
  using Keep =
      std::function<absl::Status(const std::string& frame, const std::vector<std::string>& behind)>;
  void Find(const std::string& place, Keep keep, fleet::Fleet::Done done);
  // Adds a stored frame to those of the place.
  void Put(const std::string& place, const std::string& key);

 private:
  fleet::Fleet* const fleet_;
  store::Store* const store_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_FRAMES_SHARED_FRAMES_H_
