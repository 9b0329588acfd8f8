// SPDX-License-Identifier: Apache-2.0
// Frames between a store and a fleet.
#include "server/frames/shared_frames.h"

#include <absl/synchronization/notification.h>
#include <gmock/gmock.h>

#include "base/sha256.h"
#include "tests/unit/server/filled_store.h"

namespace tensord::server {
namespace shared_frames_test {

class SharedFramesTest : public archive::FilledStoreTest {
 protected:
  std::unique_ptr<fleet::Fleet> OpenFleet() {
    return std::make_unique<fleet::Fleet>(fleet::FleetOptions(),
                                          std::make_unique<fleet::FakeTier>(server_), OpenKeys());
  }

  const std::shared_ptr<fleet::FakeServer> server_ = std::make_shared<fleet::FakeServer>();
};

// Where writing to the store hangs, whoever is around it can tell.
TEST_F(SharedFramesTest, WhatIsFoundIsTakenWithinWhatIsAround) {
  Fill();
  const auto one = OpenFleet();
  std::string place;
  const auto frames = store_->ListFrames(0);
  for (const store::FrameRow& row : *frames) {
    if (row.facts.code != Sha256("code")) continue;
    place = PlaceOf(row.facts.code, row.facts.environment);
    SharedFrames(one.get(), store_.get(), kMostFrameBytes).Put(place, row.key);
  }
  one->Flush(absl::InfiniteFuture());

  const auto two = OpenFleet();
  const auto other = OpenStore("two");
  int times = 0;
  const auto around = [&](const std::function<absl::Status()>& take) {
    ++times;
    EXPECT_EQ(other->Verify().frames, 0u);
    absl::Status status = take();
    EXPECT_EQ(other->Verify().frames, 2u);
    return status;
  };
  absl::Notification done;
  SharedFrames(two.get(), other.get(), kMostFrameBytes)
      .Find(place, absl::Seconds(10), around, [&](const absl::Status& found) {
        EXPECT_TRUE(found.ok()) << found;
        done.Notify();
      });
  done.WaitForNotification();
  EXPECT_EQ(times, 1);
}

}  // namespace shared_frames_test
}  // namespace tensord::server
