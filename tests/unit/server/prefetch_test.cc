// SPDX-License-Identifier: Apache-2.0
// What jobs used, from a tier into a store.
#include "server/archive/prefetch.h"

#include <gmock/gmock.h>

#include "base/sha256.h"
#include "server/archive/export.h"
#include "server/fleet/programs.h"
#include "server/frames/shared_frames.h"
#include "server/jobs/job_lists.h"
#include "tests/unit/server/filled_store.h"

namespace tensord::archive {
namespace prefetch_test {

class PrefetchTest : public FilledStoreTest {
 protected:
  PrefetchTest() : server_(std::make_shared<fleet::FakeServer>()), tier_(server_) {}

  std::unique_ptr<fleet::Fleet> OpenFleet() {
    return std::make_unique<fleet::Fleet>(fleet::FleetOptions(),
                                          std::make_unique<fleet::FakeTier>(server_), OpenKeys());
  }
  fleet::Name FramesOf(const std::string& code) {
    return server::FramesName(
        server::PlaceOf(Sha256(code), server::DigestOf(FrameOf(code, "").environment())));
  }
  // As a daemon does that compiled and captured it for the job.
  void Share(fleet::Fleet& fleet, const std::string& job) {
    server::JobLists lists(store_.get(), &fleet, absl::Hours(1));
    for (const std::string program : {"first", "second"}) {
      fleet::PutProgram(fleet, store_.get(), Sha256(program));
      lists.Used(job, fleet::ProgramName(Sha256(program)));
    }
    const auto frames = store_->ListFrames(0);
    for (const store::FrameRow& row : *frames) {
      if (row.facts.code != Sha256("code")) continue;
      server::SharedFrames(&fleet, store_.get(), server::kMostFrameBytes)
          .Put(server::PlaceOf(row.facts.code, row.facts.environment), row.key);
    }
    lists.Used(job, FramesOf("code"));
    lists.Flush();
    fleet.Flush(absl::InfiniteFuture());
  }

  std::shared_ptr<fleet::FakeServer> server_;
  fleet::FakeTier tier_;
};

TEST_F(PrefetchTest, BringsWhatAJobUsed) {
  Fill();
  const auto fleet = OpenFleet();
  Share(*fleet, "train");
  const auto reader = OpenKeys("");
  fleet::Exchange exchange(&tier_, reader.get());
  const auto names = NamesOfJob(exchange, "train");
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(names->size(), 3u);
  const auto other = OpenStore("two");
  const auto fetched = Prefetch(*other, exchange, *names);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->programs, 2u);
  EXPECT_EQ(fetched->frames, 2u);
  EXPECT_EQ(fetched->missing, 0u);
  EXPECT_TRUE(other->Lookup(Sha256("first")).ok());
  EXPECT_EQ(other->Verify().frames, 2u);
  const auto again = Prefetch(*other, exchange, *names);
  EXPECT_EQ(again->stored_before, 4u);
  EXPECT_EQ(again->programs + again->frames, 0u);
  EXPECT_TRUE(absl::IsNotFound(NamesOfJob(exchange, "another").status()));
}

TEST_F(PrefetchTest, HostsSayTogetherWhatAJobUsed) {
  const auto fleet = OpenFleet();
  const auto other = OpenStore("two");
  server::JobLists one(store_.get(), fleet.get(), absl::Hours(1));
  server::JobLists two(other.get(), fleet.get(), absl::Hours(1));
  one.Used("train", fleet::ProgramName(Sha256("first")));
  two.Used("train", fleet::ProgramName(Sha256("second")));
  one.Flush();
  two.Flush();
  fleet->Flush(absl::InfiniteFuture());
  fleet::Exchange exchange(&tier_, keys_.get());
  EXPECT_EQ(NamesOfJob(exchange, "train")->size(), 2u);
}

TEST_F(PrefetchTest, WhatIsMissingOrRefusedIsCounted) {
  Fill();
  const auto fleet = OpenFleet();
  Share(*fleet, "train");
  fleet::Exchange exchange(&tier_, keys_.get());
  auto names = *NamesOfJob(exchange, "train");
  names.push_back(fleet::ProgramName(Sha256("gone")));
  names.push_back({"kernels", Sha256("of no kind")});
  const std::string second = fleet::ProgramName(Sha256("second")).Path();
  server_->objects[second].back() ^= 1;
  const auto other = OpenStore("two");
  const auto fetched = Prefetch(*other, exchange, names);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->programs, 1u);
  EXPECT_EQ(fetched->missing, 2u) << "of a kind that nobody knows nothing lies there";
  ASSERT_EQ(fetched->refused.size(), 1u);
  EXPECT_THAT(fetched->refused[0], ::testing::HasSubstr(second));

  // A damaged blob is no missing one.
  const auto third = OpenStore("three");
  for (auto& [name, value] : server_->objects) {
    if (name.rfind("blob/", 0) == 0) value.pop_back();
  }
  EXPECT_EQ(Prefetch(*third, exchange, {fleet::ProgramName(Sha256("first"))})->refused.size(), 1u);
  EXPECT_EQ(third->Verify().programs, 0u);
}

TEST_F(PrefetchTest, ATiersTroubleIsSaid) {
  server_->status = absl::UnavailableError("nobody is there");
  fleet::Exchange exchange(&tier_, keys_.get());
  EXPECT_TRUE(absl::IsUnavailable(NamesOfJob(exchange, "train").status()));
  EXPECT_TRUE(absl::IsUnavailable(
      Prefetch(*store_, exchange, {fleet::ProgramName(Sha256("first"))}).status()));
}

TEST_F(PrefetchTest, WhatAJobUsedIsExported) {
  Fill();
  const std::string third = AddProgram("third", {"c"});
  server::JobLists lists(store_.get(), nullptr, absl::Hours(1));
  lists.Used("train", fleet::ProgramName(third));
  lists.Used("train", FramesOf("other code"));
  lists.Used("train", fleet::ProgramName(Sha256("evicted")));
  lists.Flush();
  const auto selection = SelectJob(*store_, "train");
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_THAT(selection->programs, ::testing::ElementsAre(third));
  EXPECT_EQ(selection->frames.size(), 1u);
  EXPECT_TRUE(absl::IsNotFound(SelectJob(*store_, "another").status()));
}

}  // namespace prefetch_test
}  // namespace tensord::archive
