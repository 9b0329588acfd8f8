// SPDX-License-Identifier: Apache-2.0
// Frames in the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/sha256.h"
#include "server/store/sqlite.h"
#include "server/store/store.h"

namespace tensord::store {
namespace store_frames_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kMiB = 1 << 20;

class StoreFramesTest : public ::testing::Test {
 protected:
  StoreFramesTest() {
    char folder[] = "/tmp/tensord-store-test.XXXXXX";
    root_ = mkdtemp(folder);
  }
  ~StoreFramesTest() override { fs::remove_all(root_); }

  std::unique_ptr<Store> Open(uint64_t limit = 0) {
    auto store = Store::Open({root_ + "/store", limit, 60'000, [this] { return now_ms_; }});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  static FrameFacts Facts(const std::string& code, const std::string& behind = "") {
    FrameFacts facts{
        Sha256(code), Sha256("environment"), "module", code + "\nforward", 3, 2, 1, {}};
    if (!behind.empty()) facts.behind = {Sha256(behind)};
    return facts;
  }
  // Puts a frame, and gives its key. A millisecond later than the one before.
  std::string Put(Store& store, const std::string& code, const std::string& text,
                  const std::string& behind = "") {
    ++now_ms_;
    const std::string key = Sha256(code + text);
    const absl::Status status = store.PutFrame(key, text, Facts(code, behind));
    EXPECT_TRUE(status.ok()) << status;
    return key;
  }
  static std::vector<std::string> Texts(Store& store, const std::string& code,
                                        const std::set<std::string>& known = {}) {
    std::vector<std::string> texts;
    for (const FoundFrame& found : store.FramesOf(Sha256(code), Sha256("environment"), known)) {
      texts.push_back(found.record->payload);
    }
    return texts;
  }
  static std::vector<std::string> Behind(Store& store, const std::string& code,
                                         size_t limit = 100) {
    return store.CodesBehind(Sha256(code), Sha256("environment"), limit);
  }
  std::string PathOf(const std::string& key, const std::string& folder = "frames") const {
    const std::string hex = ToHex(key);
    return root_ + "/store/" + folder + "/" + hex.substr(0, 2) + "/" + hex;
  }
  // Runs SQL on the index, as somebody else.
  void ChangeIndex(const char* sql) const {
    auto database = Database::Open(root_ + "/store/index.sqlite");
    ASSERT_TRUE(database.ok()) << database.status();
    ASSERT_TRUE(database->Execute(sql).ok());
  }

  std::string root_;
  int64_t now_ms_ = 1'700'000'000'000;
};

TEST_F(StoreFramesTest, FactsAreReadAsTheyWereWritten) {
  FrameFacts facts = Facts("f", "g");
  facts.behind.push_back(Sha256("h"));
  const auto read = DecodeFrameFacts(Encode(facts));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->code, facts.code);
  EXPECT_EQ(read->environment, facts.environment);
  EXPECT_EQ(read->module, "module");
  EXPECT_EQ(read->qualified_name, "f\nforward");
  EXPECT_EQ(read->behind, facts.behind);
  EXPECT_EQ(read->guards, 3u);
  EXPECT_EQ(read->graphs, 2u);
  EXPECT_EQ(read->inlined, 1u);
  for (const std::string& bad : {std::string(), Encode(facts).substr(0, 150), "x" + Encode(facts),
                                 Encode(facts).substr(1)}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeFrameFacts(bad).status())) << bad;
  }
}

TEST_F(StoreFramesTest, FindsByCodeAndEnvironment) {
  auto store = Open();
  const std::string a = Put(*store, "f", "a"), b = Put(*store, "f", "b");
  Put(*store, "g", "c");
  EXPECT_THAT(Texts(*store, "f"), ElementsAre("b", "a"));
  EXPECT_THAT(Texts(*store, "f", {b}), ElementsAre("a"));
  EXPECT_THAT(Texts(*store, "h"), IsEmpty());
  EXPECT_THAT(store->FramesOf(Sha256("f"), Sha256("another"), {}), IsEmpty());
  now_ms_ += 1;
  store->CountFrameUse(a, 1);
  EXPECT_THAT(Texts(*store, "f"), ElementsAre("a", "b"));
  const auto row = store->FindFrame(a.substr(0, 4));
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_EQ(row->hits, 1u);
  EXPECT_EQ(row->used_ms, now_ms_);
  EXPECT_TRUE(absl::IsNotFound(store->FindFrame("none").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(store->FindFrame("").status()));
  EXPECT_EQ(store->ListFrames(0)->size(), 3u);
  EXPECT_EQ(store->ListFrames(1)->at(0).key, a);
}

TEST_F(StoreFramesTest, OutlivesTheDaemonAndTheIndex) {
  {
    auto store = Open();
    Put(*store, "f", "a", "caller");
    Put(*store, "f", "a", "another caller");
  }
  {
    auto store = Open();
    EXPECT_THAT(Texts(*store, "f"), ElementsAre("a"));
    EXPECT_THAT(Behind(*store, "caller"), ElementsAre(Sha256("f")));
    EXPECT_EQ(store->Count()->frames, 1u);
  }
  fs::remove(root_ + "/store/index.sqlite");
  auto store = Open();
  EXPECT_THAT(Texts(*store, "f"), IsEmpty());
  store->Reconcile();
  EXPECT_THAT(Texts(*store, "f"), ElementsAre("a"));
  EXPECT_THAT(Behind(*store, "caller"), ElementsAre(Sha256("f")));
  EXPECT_THAT(Behind(*store, "another caller"), ElementsAre(Sha256("f")));
  ASSERT_TRUE(store->RebuildIndex().ok());
  EXPECT_THAT(Texts(*store, "f"), ElementsAre("a"));
}

TEST_F(StoreFramesTest, FollowsWhatWasEnteredBehind) {
  auto store = Open();
  Put(*store, "b", "1", "a");
  Put(*store, "c", "2", "a");
  Put(*store, "d", "3", "b");
  Put(*store, "a", "4", "d");  // in a circle
  Put(*store, "x", "5", "y");
  EXPECT_THAT(Behind(*store, "a"), ElementsAre(Sha256("b"), Sha256("c"), Sha256("d")));
  EXPECT_THAT(Behind(*store, "a", 2), ElementsAre(Sha256("b"), Sha256("c")));
  EXPECT_THAT(Behind(*store, "d"), ElementsAre(Sha256("a"), Sha256("b"), Sha256("c")));
  EXPECT_THAT(Behind(*store, "x"), IsEmpty());
}

TEST_F(StoreFramesTest, IsBehindSoManyCodes) {
  auto store = Open();
  for (int i = 0; i < 20; ++i) Put(*store, "f", "a", "caller " + std::to_string(i));
  const auto record = store->PeekFrame(Sha256("fa"));
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(DecodeFrameFacts((*record)->facts)->behind.size(), kMaxBehind);
  EXPECT_THAT(Behind(*store, "caller 15"), ElementsAre(Sha256("f")));
  EXPECT_THAT(Behind(*store, "caller 16"), IsEmpty());
}

TEST_F(StoreFramesTest, FrameWithoutARowGetsOneWhenItIsPutAgain) {
  auto store = Open();
  const std::string key = Put(*store, "f", "a", "caller");
  ChangeIndex("DELETE FROM frames");
  EXPECT_THAT(Texts(*store, "f"), IsEmpty());
  EXPECT_FALSE(store->CountFrameUse(key, 1));
  Put(*store, "f", "a", "caller");
  EXPECT_THAT(Texts(*store, "f"), ElementsAre("a"));
  EXPECT_THAT(Behind(*store, "caller"), ElementsAre(Sha256("f")));
  EXPECT_TRUE(store->CountFrameUse(key, 1));
  EXPECT_EQ(store->ListFrames(0)->at(0).hits, 1u);
}

// As a bit that flips in the index's file leaves it.
TEST_F(StoreFramesTest, FrameWhoseRowIsDamagedIsFoundWhenItIsPutAgain) {
  auto store = Open();
  for (const char* column : {"code", "environment"}) {
    Put(*store, "f", "a", "caller");
    ChangeIndex(("UPDATE frames SET guards=7, name='', " + std::string(column) + "=x'00'").c_str());
    EXPECT_THAT(Texts(*store, "f"), IsEmpty());
    Put(*store, "f", "a", "caller");
    EXPECT_THAT(Texts(*store, "f"), ElementsAre("a"));
    EXPECT_THAT(Behind(*store, "caller"), ElementsAre(Sha256("f")));
    const auto rows = store->ListFrames(0);
    ASSERT_EQ(rows->size(), 1u);
    EXPECT_EQ(rows->at(0).facts.guards, 3u);
    EXPECT_EQ(rows->at(0).facts.qualified_name, "f\nforward");
  }
}

// The record is on the disk, by which nobody finds a frame of a code.
TEST_F(StoreFramesTest, FrameWhoseRowTheIndexDoesNotTakeIsFoundAndGetsItLater) {
  auto store = Open();
  ChangeIndex("CREATE TRIGGER refuse BEFORE INSERT ON frames BEGIN SELECT RAISE(ABORT, 'no'); END");
  Put(*store, "f", "a");
  EXPECT_THAT(Texts(*store, "f"), ElementsAre("a"));
  EXPECT_NE(store->problem(), "");
  store->WriteBack();
  EXPECT_THAT(Texts(*store, "f"), ElementsAre("a"));
  ChangeIndex("DROP TRIGGER refuse");
  store->WriteBack();
  EXPECT_EQ(store->problem(), "");
  EXPECT_THAT(Texts(*store, "f"), ElementsAre("a"));
  EXPECT_EQ(store->Count()->frames, 1u);
  EXPECT_THAT(Texts(*Open(), "f"), ElementsAre("a"));
}

TEST_F(StoreFramesTest, DamagedAndForeignRecordsAreRefused) {
  auto store = Open();
  const std::string flipped = Put(*store, "f", "a"), cut = Put(*store, "f", "b"),
                    swapped = Put(*store, "f", "c"), sound = Put(*store, "f", "d");
  const std::string other = Put(*store, "g", "e");
  // A program's record in a frame's place, signed by the same key.
  const std::string program = Put(*store, "f", "f");
  ASSERT_TRUE(store->Publish(program, {{}, "f", Encode(Facts("f"))}, "", {}).ok());
  const auto replace = [](const std::string& path, const std::string& by) {
    fs::remove(path);
    fs::copy_file(by, path);
  };
  fs::permissions(PathOf(flipped), fs::perms::owner_all);
  std::fstream(PathOf(flipped), std::ios::in | std::ios::out).seekp(-1, std::ios::end).put('X');
  fs::permissions(PathOf(cut), fs::perms::owner_all);
  fs::resize_file(PathOf(cut), fs::file_size(PathOf(cut)) - 1);
  replace(PathOf(swapped), PathOf(other));
  replace(PathOf(program), PathOf(program, "manifests"));
  EXPECT_THAT(Texts(*store, "f"), ElementsAre("d"));
  EXPECT_EQ(store->counters().corrupt, 4u);
  EXPECT_EQ(store->Count()->frames, 2u);
  for (const std::string& key : {flipped, cut, swapped, program}) {
    EXPECT_FALSE(fs::exists(PathOf(key)));
  }
  EXPECT_TRUE(fs::exists(PathOf(sound)));

  // Of another store: nothing of it counts.
  store.reset();
  fs::remove(root_ + "/store/key");
  store = Open();
  EXPECT_THAT(Texts(*store, "f"), IsEmpty());
}

TEST_F(StoreFramesTest, IndexThatErrsServesNothingElse) {
  auto store = Open();
  Put(*store, "f", "a");
  Put(*store, "g", "b");
  ChangeIndex("UPDATE frames SET code=(SELECT code FROM frames WHERE record_bytes>0 ORDER BY key)");
  EXPECT_EQ(Texts(*store, "f").size() + Texts(*store, "g").size(), 1u);
}

TEST_F(StoreFramesTest, OneCodeHasSoManyFrames) {
  auto store = Open();
  const std::string first = Put(*store, "f", "0");
  for (int i = 1; i < 64; ++i) Put(*store, "f", std::to_string(i));
  ++now_ms_;
  EXPECT_TRUE(store->CountFrameUse(first, 1));
  Put(*store, "f", "more");
  const auto texts = Texts(*store, "f");
  EXPECT_EQ(texts.size(), kMaxFramesOfCode);
  EXPECT_THAT(texts, ::testing::Contains("0"));
  EXPECT_THAT(texts, ::testing::Not(::testing::Contains("1")));
  EXPECT_FALSE(fs::exists(PathOf(Sha256("f1"))));
  EXPECT_EQ(store->counters().frames_evicted, 1u);
}

// One that is past the limit is not even read.
TEST_F(StoreFramesTest, ReadsNoMoreThanItIsAskedFor) {
  auto store = Open();
  const std::string oldest = Put(*store, "f", "a" + std::string(1000, 'x'));
  Put(*store, "f", "b" + std::string(1000, 'x'));
  Put(*store, "f", "c" + std::string(1000, 'x'));
  fs::permissions(PathOf(oldest), fs::perms::owner_all);
  fs::resize_file(PathOf(oldest), 10);
  const auto found = store->FramesOf(Sha256("f"), Sha256("environment"), {}, 1500);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].record->payload[0], 'c');
  EXPECT_EQ(found[1].record->payload[0], 'b');
  EXPECT_EQ(store->counters().corrupt, 0u);
  EXPECT_EQ(store->FramesOf(Sha256("f"), Sha256("environment"), {}).size(), 2u);
  EXPECT_EQ(store->counters().corrupt, 1u);
}

TEST_F(StoreFramesTest, EvictedByUseWithThePrograms) {
  auto store = Open(/*limit=*/5 * kMiB);
  const std::string old = Put(*store, "old", std::string(kMiB, 'x'));
  now_ms_ += 1000;
  const KernelRow kernel =
      store->PutKernel(Sha256("kernel"), std::string(kMiB, 'k'), "source", "facts");
  ASSERT_TRUE(store->Publish(Sha256("program"), {{kernel.sha256}, "payload", ""}, "", {}).ok());
  now_ms_ += 1000;
  const std::string used = Put(*store, "used", std::string(kMiB, 'y'));
  now_ms_ += 100'000;
  store->CountFrameUse(used, 1);
  Put(*store, "new", std::string(2 * kMiB, 'z'));
  EXPECT_THAT(Texts(*store, "old"), IsEmpty());
  EXPECT_EQ(Texts(*store, "used").size(), 1u);
  EXPECT_TRUE(store->Lookup(Sha256("program")).ok());
  EXPECT_EQ(store->counters().frames_evicted, 1u);
  EXPECT_EQ(store->counters().evicted, 0u);
  now_ms_ += 100'000;
  store->CountFrameUse(used, 1);
  Put(*store, "newer", std::string(2 * kMiB, 'w'));
  EXPECT_FALSE(store->Lookup(Sha256("program")).ok());
  EXPECT_EQ(Texts(*store, "used").size(), 1u);
  EXPECT_EQ(store->counters().evicted, 1u);
}

TEST_F(StoreFramesTest, WhatTheDiskDoesNotTakeIsServedFromMemory) {
  {
    auto store = Open(/*limit=*/4096);
    Put(*store, "f", "a", "caller");
    Put(*store, "f", "b", "f");
    EXPECT_THAT(Texts(*store, "f"), UnorderedElementsAre("a", "b"));
    EXPECT_THAT(Behind(*store, "caller"), ElementsAre(Sha256("f")));
    EXPECT_TRUE(fs::is_empty(root_ + "/store/frames"));
    EXPECT_NE(store->problem(), "");
    EXPECT_TRUE(store->PeekFrame(Sha256("fa")).ok());
    // It is listed, the latest first, and found by its key.
    const auto rows = store->ListFrames(0);
    ASSERT_EQ(rows->size(), 2u);
    EXPECT_EQ(rows->front().key, Sha256("fb"));
    EXPECT_EQ(rows->front().bytes, 1u);
    EXPECT_EQ(store->ListFrames(1)->size(), 1u);
    EXPECT_EQ(store->FindFrame(Sha256("fa").substr(0, 8))->key, Sha256("fa"));
  }
  auto store = Open(/*limit=*/kMiB);
  Put(*store, "g", std::string(700'000, 'x'));
  Put(*store, "f", std::string(700'000, 'y'));  // does not fit, for the other was used just now
  EXPECT_EQ(Texts(*store, "f").size(), 1u);
  EXPECT_EQ(store->Count()->frames, 1u);
  now_ms_ += 100'000;
  store->WriteBack();
  EXPECT_EQ(store->problem(), "");
  EXPECT_EQ(Texts(*store, "f").size(), 1u);
  EXPECT_EQ(store->Count()->frames, 1u);
  EXPECT_THAT(Texts(*store, "g"), IsEmpty());
}

TEST_F(StoreFramesTest, VerifyAndReconcile) {
  auto store = Open();
  const std::string a = Put(*store, "f", "a"), b = Put(*store, "f", "b"), c = Put(*store, "f", "c");
  EXPECT_EQ(store->Verify().frames, 3u);
  fs::permissions(PathOf(a), fs::perms::owner_all);
  fs::resize_file(PathOf(a), 10);
  const Verification found = store->Verify();
  EXPECT_EQ(found.frames, 2u);
  EXPECT_EQ(found.damaged, 1u);
  fs::remove(PathOf(b));
  EXPECT_EQ(store->Count()->frames, 2u);
  store->Reconcile();
  EXPECT_EQ(store->Count()->frames, 1u);
  EXPECT_THAT(Texts(*store, "f"), ElementsAre("c"));
}

TEST_F(StoreFramesTest, TotalsFollowTheRows) {
  auto store = Open();
  const uint64_t before = store->Count()->bytes;
  Put(*store, "f", std::string(100'000, 'x'));
  const Totals one = *store->Count();
  EXPECT_GE(one.frame_bytes, 100'000u);
  EXPECT_GE(one.bytes, before + 100'000);
  Put(*store, "f", std::string(100'000, 'x'), "caller");  // the same
  EXPECT_EQ(store->Count()->frames, 1u);
  fs::remove(PathOf(Sha256("f" + std::string(100'000, 'x'))));
  EXPECT_THAT(Texts(*store, "f"), IsEmpty());
  store->Reconcile();
  EXPECT_EQ(store->Count()->frames, 0u);
  EXPECT_EQ(store->Count()->frame_bytes, 0u);
}

TEST_F(StoreFramesTest, SeveralThreadsPutAndFind) {
  auto store = Open(/*limit=*/2 * kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&store, t] {
      for (int i = 0; i < 30; ++i) {
        const std::string text = std::to_string(i) + std::string(20'000, 'x');
        const absl::Status status =
            store->PutFrame(Sha256("f" + text), text, Facts("f", "caller " + std::to_string(t)));
        EXPECT_TRUE(status.ok()) << status;
        for (const std::string& found : Texts(*store, "f")) EXPECT_EQ(found.back(), 'x');
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 4; ++t) {
    EXPECT_THAT(Behind(*store, "caller " + std::to_string(t)), ElementsAre(Sha256("f")));
  }
}

}  // namespace store_frames_test
}  // namespace tensord::store
