// SPDX-License-Identifier: Apache-2.0
// The index is a cache of what is signed: what it says changes nothing that is served, and where it
// is lost, damaged or of an older form it is made anew of the records.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "server/store/store.h"
#include "tests/unit/server/store_testing.h"

namespace tensord::store {
namespace store_index_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoreIndexTest : public StoreTest {};

TEST_F(StoreIndexTest, WhatTheIndexSaysChangesNothingThatIsServed) {
  auto store = Open();
  const std::string a = Add(*store, "a"), b = Add(*store, "b");
  ChangeIndex(
      "UPDATE kernels SET sha256=(SELECT sha256 FROM kernels AS k WHERE k.sha256!=kernels.sha256);"
      "UPDATE blobs SET bytes=1; UPDATE programs SET label='wrong', bytes=7;"
      "UPDATE program_blobs SET sha256=x'00'");
  for (const char* name : {"a", "b"}) {
    const auto kernel = store->FindKernel(Sha256(std::string("kernel ") + name));
    ASSERT_TRUE(kernel.has_value());
    EXPECT_EQ(kernel->sha256, Sha256(Binary(name, 100)));
    EXPECT_EQ(kernel->size, Binary(name, 100).size());
    EXPECT_EQ(kernel->facts, std::string("facts ") + name);
  }
  EXPECT_THAT((*store->Lookup(a))->blobs, ElementsAre(Sha256(Binary("a", 100))));
  EXPECT_THAT((*store->Lookup(b))->blobs, ElementsAre(Sha256(Binary("b", 100))));
}

TEST_F(StoreIndexTest, LostIndexIsMadeOfTheRecords) {
  const std::string key = Add(*Open(), "a");
  const uint64_t bytes = Open()->Find(key)->bytes;
  for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(IndexPath() + suffix);
  auto store = Open();
  EXPECT_TRUE(store->Lookup(key).ok());
  EXPECT_EQ(store->Count()->programs, 0u);
  store->Reconcile();
  const auto row = store->Find(key);
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_EQ(row->facts.label, "a");
  EXPECT_EQ(row->facts.target, "cpu avx2");
  EXPECT_EQ(row->facts.nodes, 3u);
  EXPECT_EQ(row->facts.compile_nanoseconds, 42u);
  EXPECT_EQ(row->bytes, bytes);
  EXPECT_EQ(store->Count()->programs, 1u);
  EXPECT_TRUE(store->FindKernel(Sha256("kernel a")).has_value());
}

TEST_F(StoreIndexTest, IndexOfAnOlderFormIsMadeAnew) {
  const std::string key = Add(*Open(), "a");
  ChangeIndex("PRAGMA user_version=1");
  auto store = Open();
  ASSERT_NE(store, nullptr);
  store->Reconcile();
  EXPECT_EQ(store->Count()->programs, 1u);
  EXPECT_TRUE(store->Lookup(key).ok());
}

TEST_F(StoreIndexTest, IndexOfANewerFormIsRefused) {
  Open();
  ChangeIndex("PRAGMA user_version=1000");
  const auto store = Store::Open({root_ + "/store"});
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("newer daemon"));
}

TEST_F(StoreIndexTest, DamagedIndexIsSetAsideWithoutLosingAProgram) {
  const std::string key = Add(*Open(), "a");
  for (const char* suffix : {"-wal", "-shm"}) fs::remove(IndexPath() + suffix);
  std::ofstream(IndexPath(), std::ios::trunc) << std::string(8192, 'x');
  auto store = Open();
  ASSERT_NE(store, nullptr);
  store->Reconcile();
  EXPECT_EQ(store->Count()->programs, 1u);
  EXPECT_TRUE(store->Lookup(key).ok());
  EXPECT_TRUE(fs::exists(IndexPath() + ".damaged"));
  Add(*store, "b");
}

// A flipped bit in a column's name, in what the file says of its tables.
TEST_F(StoreIndexTest, IndexWithAnotherColumnIsMadeAnew) {
  const std::string key = Add(*Open(), "a");
  ChangeIndex(
      "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql=replace(sql, 'compile_ns', "
      "'compile_nq') WHERE name='programs'");
  auto store = Open();
  ASSERT_NE(store, nullptr);
  Add(*store, "b");
  store->Reconcile();
  EXPECT_EQ(store->List(10)->size(), 2u);
  EXPECT_TRUE(store->Lookup(key).ok());
  EXPECT_TRUE(fs::exists(IndexPath() + ".damaged"));
}

// A flipped bit in a number, which no page shows.
TEST_F(StoreIndexTest, IndexWhoseTotalsAreWrongIsMadeAnew) {
  const std::vector<std::string> changes = {
      "UPDATE totals SET bytes=bytes+(1<<40)", "UPDATE totals SET programs=0",
      "UPDATE totals SET frame_bytes=frame_bytes+1", "UPDATE blobs SET bytes=bytes+4096",
      "UPDATE programs SET record_bytes=0"};
  for (const std::string& change : changes) {
    fs::remove_all(root_ + "/store");
    const std::string key = Add(*Open(), "a");
    const auto bytes = Open()->Count()->bytes;
    ChangeIndex(change.c_str());
    auto store = Open();
    store->Reconcile();
    EXPECT_TRUE(fs::exists(IndexPath() + ".damaged")) << change;
    EXPECT_EQ(store->Count()->programs, 1u) << change;
    EXPECT_LT(store->Count()->bytes, 2 * bytes) << change;
    EXPECT_TRUE(store->Lookup(key).ok()) << change;
  }
}

// Not by what is published before they are compared, either.
TEST_F(StoreIndexTest, WrongTotalsEvictNothing) {
  constexpr int kMany = 20;
  for (int i = 0; i < kMany; ++i) Add(*Open(), std::to_string(i));
  ChangeIndex("UPDATE totals SET bytes=bytes+(1<<40)");
  StoreOptions options;
  options.root = root_ + "/store";
  options.limit_bytes = 1 << 30;
  options.keep_ms = 0;
  options.background = true;
  auto store = *Store::Open(options);
  Add(*store, "new");
  for (int i = 0; i < 1000 && !fs::exists(IndexPath() + ".damaged"); ++i) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  store.reset();
  store = Open();
  store->Reconcile();
  // The new one may have been kept in memory meanwhile.
  EXPECT_GE(store->Count()->programs, static_cast<uint64_t>(kMany));
}

TEST_F(StoreIndexTest, IndexThatIsSoundStays) {
  auto store = Open();
  for (const char* name : {"a", "b"}) Add(*store, name);
  store->Reconcile();
  store->Reconcile();
  EXPECT_FALSE(fs::exists(IndexPath() + ".damaged"));
  EXPECT_EQ(store->Count()->programs, 2u);
}

// Behind the header, which is all that opening looks at: every page of the database in turn.
TEST_F(StoreIndexTest, IndexThatIsDamagedWhileInUseIsMadeAnew) {
  int made_anew = 0;
  constexpr int kRounds = 16;
  for (int round = 0; round < kRounds; ++round) {
    fs::remove_all(root_ + "/store");
    int warnings = 0;
    StoreOptions options;
    options.root = root_ + "/store";
    options.now_ms = [this] { return now_ms_; };
    options.warn = [&](const std::string&) { ++warnings; };
    std::vector<std::string> keys;
    {
      auto store = *Store::Open(options);
      for (int i = 0; i < 8; ++i) keys.push_back(Add(*store, std::to_string(i)));
    }
    const auto size = static_cast<int64_t>(fs::file_size(IndexPath()));
    {
      std::fstream file(IndexPath(), std::ios::in | std::ios::out | std::ios::binary);
      const std::string noise(512, static_cast<char>(0x80 + round));
      file.seekp(std::min<int64_t>(100 + round * size / kRounds, size - 512))
          .write(noise.data(), 512);
    }
    auto store = *Store::Open(options);
    for (const std::string& key : keys) EXPECT_TRUE(store->Lookup(key).ok()) << round;
    for (int i = 0; i < 3; ++i) {
      const std::string name = "new " + std::to_string(i);
      keys.push_back(Add(*store, name));
      EXPECT_TRUE(store->FindKernel(Sha256("kernel " + name)).has_value()) << round;
    }
    store->Reconcile();
    store->Reconcile();
    for (const std::string& key : keys) EXPECT_TRUE(store->Lookup(key).ok()) << round;
    if (warnings == 0) continue;
    ++made_anew;
    EXPECT_EQ(store->Count()->programs, keys.size()) << round;
  }
  EXPECT_GE(made_anew, kRounds / 4);
}

// An index that says nothing of what is stored, for whatever reason, costs no blob of a record.
TEST_F(StoreIndexTest, BlobsOfRecordsStayWhateverTheIndexSays) {
  auto store = Open();
  std::vector<std::string> keys;
  for (int i = 0; i < 5; ++i) keys.push_back(Add(*store, std::to_string(i)));
  const timespec long_ago[2] = {{1'000'000, 0}, {1'000'000, 0}};
  for (const auto& file : fs::recursive_directory_iterator(store->blob_folder())) {
    utimensat(AT_FDCWD, file.path().c_str(), long_ago, 0);
  }
  // The rows of blobs are gone, those of the records are not: nothing adds them again.
  ChangeIndex("DELETE FROM blobs");
  store->Reconcile();
  for (const std::string& key : keys) EXPECT_TRUE(store->Lookup(key).ok());
  EXPECT_EQ(store->counters().corrupt, 0u);
}

TEST_F(StoreIndexTest, IndexReplacedByNonsenseIsMadeAnew) {
  auto store = Open();
  const std::string key = Add(*store, "a");
  for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(IndexPath() + suffix);
  std::ofstream(IndexPath()) << std::string(8192, 'x');
  EXPECT_TRUE(store->Count().ok());
  store->Reconcile();
  EXPECT_EQ(store->Count()->programs, 1u);
  EXPECT_TRUE(store->Lookup(key).ok());
}

// As many as several threads read: the index says of them what it said, and what is no record of
// this store, or lacks a blob, goes.
TEST_F(StoreIndexTest, IndexOfManyRecordsIsMadeOfThemAlone) {
  constexpr int kMany = 300;
  auto store = Open();
  // Label and bytes of programs, by key.
  using Said = std::map<std::string, std::pair<std::string, uint64_t>>;
  const auto listed = [&] {
    Said said;
    const auto rows = store->List(0);
    EXPECT_TRUE(rows.ok()) << rows.status();
    if (!rows.ok()) return said;
    for (const ProgramRow& row : *rows) said[row.key] = {row.facts.label, row.bytes};
    return said;
  };
  for (int i = 0; i < kMany; ++i) Add(*store, std::to_string(i), 100 + i * 31);
  Said said = listed();
  const std::string cut = Sha256("7"), without_blob = Sha256("8"), cut_kernel = Sha256("kernel 9");
  for (const std::string& path : {PathOf(cut, "manifests"), PathOf(cut_kernel, "kernels")}) {
    fs::permissions(path, fs::perms::owner_all);
    fs::resize_file(path, 50);
  }
  fs::remove(PathOf(Sha256(Binary("8", 100 + 8 * 31))));
  said.erase(cut);
  said.erase(without_blob);

  ASSERT_TRUE(store->RebuildIndex().ok());
  EXPECT_EQ(listed(), said);
  EXPECT_EQ(store->Count()->programs, static_cast<uint64_t>(kMany - 2));
  EXPECT_FALSE(fs::exists(PathOf(cut, "manifests")));
  EXPECT_FALSE(fs::exists(PathOf(without_blob, "manifests")));
  EXPECT_FALSE(fs::exists(PathOf(cut_kernel, "kernels")));
  for (const auto& [key, label_and_bytes] : said) EXPECT_TRUE(store->Lookup(key).ok());
}

TEST_F(StoreIndexTest, ReconcileRemovesWhatNoRecordNames) {
  auto store = Open();
  const std::string a = Add(*store, "a"), b = Add(*store, "b");
  const std::string stray = PathOf(Sha256("stray")), fresh = PathOf(Sha256("fresh"));
  for (const std::string& path : {stray, fresh}) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << "x";
  }
  const timespec long_ago[2] = {{1'000'000, 0}, {1'000'000, 0}};
  utimensat(AT_FDCWD, stray.c_str(), long_ago, 0);
  fs::remove(PathOf(b, "manifests"));
  store->Reconcile();
  EXPECT_FALSE(fs::exists(stray));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_EQ(store->Count()->programs, 1u);
  EXPECT_TRUE(store->Lookup(a).ok());
}

TEST_F(StoreIndexTest, IndexThatAnotherProcessRebuiltIsOpened) {
  auto store = Open();
  const std::string key = Add(*store, "a");
  ASSERT_TRUE(Open()->RebuildIndex().ok());
  Add(*store, "b");
  EXPECT_EQ(store->Count()->programs, 2u);
  EXPECT_EQ(Open()->Count()->programs, 2u);
  EXPECT_TRUE(store->Find(key).ok());
}

}  // namespace store_index_test
}  // namespace tensord::store
