// SPDX-License-Identifier: Apache-2.0
// Frames between a store and a fleet: those of one place (a code in an environment) lie under one
// name, each a blob whose note says behind which codes it was entered.
#ifndef TENSORD_SERVER_FRAMES_SHARED_FRAMES_H_
#define TENSORD_SERVER_FRAMES_SHARED_FRAMES_H_

#include <absl/time/time.h>

#include <cstdint>
#include <string>

#include "base/status.h"
#include "server/fleet/fleet.h"
#include "server/store/store.h"

namespace tensord::server {

// What no frame is larger than, whatever a daemon's frame_limit says.
inline constexpr uint64_t kMostFrameBytes = 63 << 20;

fleet::Name FramesName(const std::string& place);
// The right to capture for the place, among the hosts of a fleet.
fleet::Name CaptureName(const std::string& place);

// A stored frame.
absl::StatusOr<fleet::Blob> PackFrame(store::Store& store, const std::string& key);
// DataLoss: it is no frame, one of more than `most_bytes`, malformed, or of another place than the
// name's.
absl::Status CheckSharedFrame(const fleet::Name& name, const fleet::Blob& blob,
                              uint64_t most_bytes);
// Puts it into the store as well.
absl::Status TakeFrame(store::Store& store, const fleet::Name& name, const fleet::Blob& blob,
                       uint64_t most_bytes);
// Those that came with their bytes. Ok: some were taken, or none had to be. The first reason
// otherwise: NotFound, DataLoss.
absl::Status TakeFrames(store::Store& store, const fleet::Name& name, const fleet::Parcel& parcel,
                        uint64_t most_bytes);

class SharedFrames {
 public:
  // Both outlive it; `fleet` is null for none. `most_bytes`: of a frame.
  SharedFrames(fleet::Fleet* fleet, store::Store* store, uint64_t most_bytes)
      : fleet_(fleet), store_(store), most_bytes_(most_bytes) {}

  bool Exist() const { return fleet_ != nullptr; }
  // Takes each frame of the place that the store lacks, but for those that it refuses. Then calls
  // `done`: ok when there were some, stored now or before. While another host captures it waits,
  // but not longer than `wait`; NotFound otherwise makes this host the one that captures, until Put
  // or GiveUp.
  void Find(const std::string& place, absl::Duration wait, fleet::Around around,
            fleet::Fleet::Done done);
  // Adds a stored frame to those of the place, and ends the capture.
  void Put(const std::string& place, const std::string& key);
  // The capture gave no frame.
  void GiveUp(const std::string& place);

 private:
  fleet::Fleet* const fleet_;
  store::Store* const store_;
  const uint64_t most_bytes_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_FRAMES_SHARED_FRAMES_H_
