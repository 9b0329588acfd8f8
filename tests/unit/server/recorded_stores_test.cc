// SPDX-License-Identifier: Apache-2.0
// Stores as versions have written them, as recorded bytes: recorded_stores/FORM, by the form of
// their records. All that is in them is served, or, where the form has been raised since, not
// found; nothing counts as damaged.
//
// A version that raises the form adds one: TENSORD_RECORD_STORE=FOLDER server_recorded_stores_test
// writes the present one there.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "base/sha256.h"
#include "base/version.h"
#include "server/store/store.h"

namespace tensord::store {
namespace recorded_stores_test {

namespace fs = std::filesystem;

constexpr char kPresent[] = "TNSDMAN2";

std::unique_ptr<Store> Open(const std::string& root) {
  auto store = Store::Open({root, 0, 60'000, [] { return int64_t{1'700'000'000'000}; }});
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

FrameFacts Facts() {
  return {Sha256("code"), Sha256("environment"), "module", "forward", 3, 2, 1, {Sha256("caller")}};
}

void Write(const std::string& root) {
  {
    const auto store = Open(root);
    const KernelRow kernel = store->PutKernel(Sha256("kernel"), "a binary", "// a source", "facts");
    const ProgramFacts facts{"forward", "cpu avx2", 5, 1, 0, 1000};
    ASSERT_TRUE(
        store->Publish(Sha256("program"), {{kernel.sha256}, "a payload", ""}, "a detail", facts)
            .ok());
    ASSERT_TRUE(store->PutFrame(Sha256("frame"), "a frame", Facts()).ok());
  }
  // What can be made again is no part of it.
  for (const char* name : {"index.sqlite", "index.sqlite.lock", "tmp", "repros", "notes", "jit"}) {
    fs::remove_all(root + "/" + name);
  }
}

class RecordedStoreTest : public ::testing::TestWithParam<std::string> {
 protected:
  RecordedStoreTest() {
    char folder[] = "/tmp/tensord-recorded.XXXXXX";
    root_ = mkdtemp(folder);
    fs::copy(fs::path(TENSORD_RECORDED_STORES) / GetParam(), root_ + "/store",
             fs::copy_options::recursive);
    // Modes that git does not keep.
    fs::permissions(root_ + "/store", fs::perms::owner_all);
    fs::permissions(root_ + "/store/key", fs::perms::owner_read | fs::perms::owner_write);
  }
  ~RecordedStoreTest() override { fs::remove_all(root_); }

  std::string root_;
};

TEST_P(RecordedStoreTest, IsServedOrNotFound) {
  const auto store = Open(root_ + "/store");
  store->Reconcile();
  const auto program = store->Lookup(Sha256("program"));
  const auto kernel = store->FindKernel(Sha256("kernel"));
  const auto frames = store->FramesOf(Sha256("code"), Sha256("environment"), {});
  EXPECT_EQ(store->counters().corrupt, 0u);
  EXPECT_EQ(store->Verify().damaged, 0u);
  if (GetParam() != kPresent) {
    EXPECT_TRUE(program.ok() || absl::IsNotFound(program.status())) << program.status();
    return;
  }
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ((*program)->payload, "a payload");
  EXPECT_EQ(store->Detail(Sha256("program")).value_or(""), "a detail");
  EXPECT_EQ(store->ReadBlob((*program)->blobs.at(0)).value_or(""), "a binary");
  EXPECT_EQ(store->List(0)->at(0).facts.target, "cpu avx2");
  ASSERT_TRUE(kernel.has_value());
  EXPECT_EQ(kernel->facts, "facts");
  EXPECT_EQ(store->KernelSource(Sha256("kernel")).value_or(""), "// a source");
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].record->payload, "a frame");
  EXPECT_EQ(frames[0].row.facts.behind, std::vector<std::string>{Sha256("caller")});
}

INSTANTIATE_TEST_SUITE_P(Versions, RecordedStoreTest, ::testing::Values("TNSDMAN2"),
                         [](const auto& info) { return info.param; });

TEST(RecordedStores, HaveThePresentForm) {
  if (const char* folder = std::getenv("TENSORD_RECORD_STORE")) Write(folder);
  EXPECT_EQ(kRecordMagic, kPresent) << "record a store of this version, and name it above";
}

}  // namespace recorded_stores_test
}  // namespace tensord::store
