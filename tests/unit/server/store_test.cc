// SPDX-License-Identifier: Apache-2.0
#include "server/store/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "base/sha256.h"
#include "server/store/sqlite.h"

namespace tensord::store {
namespace store_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    char folder[] = "/tmp/tensord-store-test.XXXXXX";
    root_ = mkdtemp(folder);
  }
  ~StoreTest() override { fs::remove_all(root_); }

  std::unique_ptr<Store> Open(uint64_t limit = 0) {
    auto store = Store::Open({root_ + "/store", limit, 60'000, [this] { return now_ms_; }});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  // A program with one kernel of `size` bytes, the same for the same name.
  static std::string Add(Store& store, const std::string& name, size_t size = 100) {
    const std::string key = Sha256(name);
    const KernelRow kernel = store.PutKernel(Sha256("kernel " + name), Binary(name, size),
                                             "source " + name, "facts " + name);
    const absl::Status status = store.Publish(key, {{kernel.sha256}, "payload " + name, ""},
                                              "detail " + name, {name, "cpu avx2", 3, 1, 0, 42});
    EXPECT_TRUE(status.ok()) << status;
    return key;
  }
  static std::string Binary(const std::string& name, size_t size) {
    return name + std::string(size, '.');
  }
  // The file of a blob, or in another folder of a record.
  std::string PathOf(const std::string& digest, const std::string& folder = "blobs") const {
    const std::string hex = ToHex(digest);
    return root_ + "/store/" + folder + "/" + hex.substr(0, 2) + "/" + hex;
  }
  std::string IndexPath() const { return root_ + "/store/index.sqlite"; }
  // Runs SQL on the index, as somebody else.
  void ChangeIndex(const char* sql) const {
    auto database = Database::Open(IndexPath());
    ASSERT_TRUE(database.ok()) << database.status();
    const absl::Status status = database->Execute(sql);
    ASSERT_TRUE(status.ok()) << status;
  }

  std::string root_;
  int64_t now_ms_ = 1'700'000'000'000;
};

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

TEST_F(StoreTest, ServesWhatWasPublished) {
  auto store = Open();
  EXPECT_EQ(store->Lookup(Sha256("a")).status().code(), absl::StatusCode::kNotFound);
  const std::string key = Add(*store, "a");
  const auto found = store->Lookup(key);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->payload, "payload a");
  EXPECT_THAT((*found)->blobs, ElementsAre(Sha256(Binary("a", 100))));
  EXPECT_EQ(*store->Detail(key), "detail a");
  EXPECT_EQ(*store->KernelSource(Sha256("kernel a")), "source a");
  EXPECT_EQ(*store->ReadBlob((*found)->blobs[0]), Binary("a", 100));
}

TEST_F(StoreTest, OutlivesTheDaemon) {
  const std::string key = Add(*Open(), "a");
  auto store = Open();
  EXPECT_TRUE(store->Lookup(key).ok());
  EXPECT_TRUE(store->FindKernel(Sha256("kernel a")).has_value());
}

TEST_F(StoreTest, FilesAreClosedToOthers) {
  auto store = Open();
  const std::string key = Add(*store, "a");
  EXPECT_EQ(ModeOf(store->root()), 0700);
  EXPECT_EQ(ModeOf(store->blob_folder()), 0700);
  EXPECT_EQ(ModeOf(store->root() + "/key"), 0600);
  EXPECT_EQ(ModeOf(PathOf((*store->Lookup(key))->blobs[0])), 0444);
  EXPECT_TRUE(fs::is_empty(store->root() + "/tmp"));
}

TEST_F(StoreTest, ChangedBlobIsRemovedAndCounted) {
  auto store = Open();
  const std::string key = Add(*store, "a");
  const std::string blob = (*store->Lookup(key))->blobs[0];
  const std::string path = PathOf(blob);
  chmod(path.c_str(), 0600);
  // Same size and same modification time as before: only the change time tells.
  struct stat before {};
  stat(path.c_str(), &before);
  std::fstream(path, std::ios::in | std::ios::out).put('X');
  const timespec times[2] = {before.st_atim, before.st_mtim};
  utimensat(AT_FDCWD, path.c_str(), times, 0);

  EXPECT_EQ(store->Lookup(key).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store->counters().corrupt, 1u);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(store->FindKernel(Sha256("kernel a")).has_value());
  EXPECT_EQ(store->Count()->programs, 0u);
  Add(*store, "a");
  EXPECT_TRUE(store->Lookup(key).ok());
}

TEST_F(StoreTest, MissingBlobIsAMiss) {
  auto store = Open();
  const std::string key = Add(*store, "a");
  fs::remove(PathOf(Sha256(Binary("a", 100))));
  EXPECT_FALSE(store->Lookup(key).ok());
  EXPECT_EQ(store->counters().corrupt, 1u);
}

TEST_F(StoreTest, ManifestOfAnotherStoreOrNameIsRefused) {
  auto store = Open();
  const std::string a = Add(*store, "a");
  const std::string b = Add(*store, "b");
  const auto path = [&](const std::string& key) { return PathOf(key, "manifests"); };
  fs::remove(path(b));
  fs::copy_file(path(a), path(b));
  EXPECT_FALSE(store->Lookup(b).ok());
  EXPECT_TRUE(store->Lookup(a).ok());

  store.reset();
  fs::remove(root_ + "/store/key");
  store = Open();
  EXPECT_FALSE(store->Lookup(a).ok());
  EXPECT_EQ(store->counters().corrupt, 1u);
}

TEST_F(StoreTest, EveryCutOfAManifestIsAMissNotACrash) {
  auto store = Open();
  const std::string key = Add(*store, "a");
  const std::string path = PathOf(key, "manifests");
  const std::string whole = *ReadFile(path);
  for (size_t size = 0; size < whole.size(); size += 7) {
    fs::remove(path);
    std::ofstream(path) << whole.substr(0, size);
    EXPECT_FALSE(store->Lookup(key).ok()) << size;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] ^= 0x40;
    fs::remove(path);
    std::ofstream(path) << changed;
    EXPECT_FALSE(store->Lookup(key).ok()) << at;
  }
}

// What the folder takes on disk, but for the lock and the signing key.
uint64_t BytesBelow(const std::string& root) {
  uint64_t bytes = 0;
  for (const auto& file : fs::recursive_directory_iterator(root)) {
    if (file.is_regular_file()) bytes += BytesOnDisk(file.path());
  }
  return bytes;
}

constexpr uint64_t kMiB = 1 << 20;

TEST_F(StoreTest, EvictsTheLeastRecentlyUsed) {
  auto store = Open(/*limit=*/5 * kMiB);
  const std::string old = Add(*store, "old", kMiB);
  now_ms_ += 1000;
  const std::string used = Add(*store, "used", kMiB);
  now_ms_ += 100'000;
  EXPECT_TRUE(store->Lookup(used).ok());
  const std::string fresh = Add(*store, "fresh", 3 * kMiB);
  EXPECT_EQ(store->Lookup(old).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(store->Lookup(used).ok());
  EXPECT_TRUE(store->Lookup(fresh).ok());
  EXPECT_EQ(store->counters().evicted, 1u);
  EXPECT_EQ(store->counters().corrupt, 0u);
  EXPECT_FALSE(fs::exists(PathOf(Sha256(Binary("old", kMiB)))));
  EXPECT_FALSE(fs::exists(PathOf(Sha256("kernel old"), "kernels")));
  // All was used within the last seconds: what does not fit stays in memory.
  const std::string more = Add(*store, "more", 3 * kMiB);
  EXPECT_TRUE(store->Lookup(used).ok());
  EXPECT_TRUE(store->Lookup(more).ok());
  EXPECT_FALSE(fs::exists(PathOf(more, "manifests")));
  EXPECT_THAT(store->problem(), HasSubstr("store_limit"));
  // Half a minute later it goes before the limit is passed, although it was used within a minute.
  now_ms_ += 30'000;
  store->WriteBack();
  EXPECT_TRUE(fs::exists(PathOf(more, "manifests")));
  EXPECT_FALSE(store->Lookup(fresh).ok());
  EXPECT_EQ(store->problem(), "");
}

TEST_F(StoreTest, NeverTakesMoreThanItsLimit) {
  constexpr uint64_t kLimit = 4 * kMiB;
  auto store = Open(kLimit);
  uint64_t most = 0;
  for (int i = 0; i < 40; ++i) {
    now_ms_ += 10'000;
    Add(*store, "program " + std::to_string(i), 200'000);
    most = std::max(most, BytesBelow(root_ + "/store"));
  }
  EXPECT_LE(most, kLimit + kLimit / 20);
  EXPECT_GE(most, kLimit / 2);
  EXPECT_GE(store->counters().evicted, 20u);
}

TEST_F(StoreTest, SharedBlobStaysWhileAProgramNeedsIt) {
  auto store = Open(/*limit=*/4 * kMiB);
  const KernelRow kernel = store->PutKernel(Sha256("k"), std::string(2 * kMiB, 'x'), "");
  const std::string a = Sha256("a"), b = Sha256("b");
  ASSERT_TRUE(store->Publish(a, {{kernel.sha256}, "a", ""}, "", {}).ok());
  now_ms_ += 1000;
  ASSERT_TRUE(store->Publish(b, {{kernel.sha256}, "b", ""}, "", {}).ok());
  now_ms_ += 100'000;
  ASSERT_TRUE(store->Lookup(b).ok());
  Add(*store, "filler", 2 * kMiB);
  EXPECT_FALSE(store->Lookup(a).ok());
  EXPECT_TRUE(store->Lookup(b).ok());
}

TEST_F(StoreTest, PublishingAProgramWhoseKernelIsGoneIsAborted) {
  auto store = Open();
  const absl::Status status = store->Publish(Sha256("a"), {{Sha256("no such")}, "", ""}, "", {});
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_FALSE(store->Lookup(Sha256("a")).ok());
}

TEST_F(StoreTest, CountsHitsAndFindsByPrefix) {
  auto store = Open();
  const std::string key = Add(*store, "a");
  Add(*store, "b");
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(store->Lookup(key).ok());
  const auto row = store->Find(key.substr(0, 4));
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_EQ(row->hits, 5u);
  EXPECT_EQ(row->facts.label, "a");
  EXPECT_EQ(row->facts.compile_nanoseconds, 42u);
  EXPECT_EQ(store->Find("").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store->Find("zzzz").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store->List(0)->size(), 2u);
  EXPECT_EQ(store->List(1)->size(), 1u);
}

TEST_F(StoreTest, KernelKeepsItsFacts) {
  auto store = Open();
  const std::string key = Sha256("k");
  store->PutKernel(key, "binary", "source", std::string("\0facts", 6));
  const auto found = store->FindKernel(key);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->facts, std::string("\0facts", 6));
  EXPECT_EQ(found->size, 6u);
}

// --- the index is a cache of what is signed

// The record of another kernel under this one's name, as a swapped row of a table would be.
TEST_F(StoreTest, KernelsRecordOfAnotherNameIsRefused) {
  auto store = Open();
  Add(*store, "a");
  Add(*store, "b");
  const auto path = [&](const char* name) { return PathOf(Sha256(name), "kernels"); };
  fs::remove(path("kernel a"));
  fs::copy_file(path("kernel b"), path("kernel a"));
  EXPECT_FALSE(store->FindKernel(Sha256("kernel a")).has_value());
  EXPECT_TRUE(store->FindKernel(Sha256("kernel b")).has_value());
  EXPECT_EQ(store->counters().corrupt, 1u);
}

TEST_F(StoreTest, RecordOfAKernelIsNoProgram) {
  auto store = Open();
  const std::string key = Sha256("same key");
  store->PutKernel(key, "binary", "source");
  fs::create_directories(fs::path(PathOf(key, "manifests")).parent_path());
  fs::copy_file(PathOf(key, "kernels"), PathOf(key, "manifests"));
  EXPECT_FALSE(store->Lookup(key).ok());
}

TEST_F(StoreTest, WhatTheIndexSaysChangesNothingThatIsServed) {
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

TEST_F(StoreTest, LostIndexIsMadeOfTheRecords) {
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

TEST_F(StoreTest, IndexOfAnOlderFormIsMadeAnew) {
  const std::string key = Add(*Open(), "a");
  ChangeIndex("PRAGMA user_version=1");
  auto store = Open();
  ASSERT_NE(store, nullptr);
  store->Reconcile();
  EXPECT_EQ(store->Count()->programs, 1u);
  EXPECT_TRUE(store->Lookup(key).ok());
}

TEST_F(StoreTest, IndexOfANewerFormIsRefused) {
  Open();
  ChangeIndex("PRAGMA user_version=1000");
  const auto store = Store::Open({root_ + "/store"});
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("newer daemon"));
}

// A daemon of the version before on a store that a newer one has used, whose index was deleted: the
// index's form, by which it would refuse the store, is not there.
TEST_F(StoreTest, RecordsOfANewerFormAreNotServedAndStay) {
  const std::string key = Add(*Open(), "a");
  const std::string kernel = Sha256("kernel a");
  const std::vector<std::string> records = {PathOf(key, "manifests"), PathOf(kernel, "kernels")};
  for (const std::string& record : records) {
    chmod(record.c_str(), 0600);
    std::fstream(record, std::ios::in | std::ios::out).seekp(7).put('9');
  }
  const std::string blob = PathOf(Sha256(Binary("a", 100)));
  const timespec long_ago[2] = {{1'000'000, 0}, {1'000'000, 0}};
  utimensat(AT_FDCWD, blob.c_str(), long_ago, 0);
  fs::remove(IndexPath());

  auto store = Open();
  store->Reconcile();
  EXPECT_EQ(store->Lookup(key).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(store->FindKernel(kernel).has_value());
  EXPECT_EQ(store->Verify().damaged, 0u);
  EXPECT_EQ(store->counters().corrupt, 0u);
  for (const std::string& record : records) EXPECT_TRUE(fs::exists(record)) << record;
  EXPECT_TRUE(fs::exists(blob));
  // Who asks has it compiled, and finds that from then on.
  Add(*store, "a");
  EXPECT_TRUE(store->Lookup(key).ok());
  EXPECT_TRUE(store->FindKernel(kernel).has_value());
}

TEST_F(StoreTest, DamagedIndexIsSetAsideWithoutLosingAProgram) {
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

// Behind the header, which is all that opening looks at: every page of the database in turn.
TEST_F(StoreTest, IndexThatIsDamagedWhileInUseIsMadeAnew) {
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
TEST_F(StoreTest, BlobsOfRecordsStayWhateverTheIndexSays) {
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

TEST_F(StoreTest, IndexReplacedByNonsenseIsMadeAnew) {
  auto store = Open();
  const std::string key = Add(*store, "a");
  for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(IndexPath() + suffix);
  std::ofstream(IndexPath()) << std::string(8192, 'x');
  EXPECT_TRUE(store->Count().ok());
  store->Reconcile();
  EXPECT_EQ(store->Count()->programs, 1u);
  EXPECT_TRUE(store->Lookup(key).ok());
}

TEST_F(StoreTest, FolderThatIsDeletedUnderTheDaemonCostsCompilesAlone) {
  auto store = Open();
  const std::string key = Add(*store, "a");
  fs::remove_all(root_ + "/store");
  EXPECT_FALSE(store->Lookup(key).ok());
  Add(*store, "a");
  EXPECT_TRUE(store->Lookup(key).ok());
  EXPECT_EQ(store->problem(), "");
  EXPECT_TRUE(fs::exists(PathOf(key, "manifests")));
}

// As many as several threads read: the index says of them what it said, and what is no record of
// this store, or lacks a blob, goes.
TEST_F(StoreTest, IndexOfManyRecordsIsMadeOfThemAlone) {
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

TEST_F(StoreTest, ReconcileRemovesWhatNoRecordNames) {
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

// One bit of each file in turn: what is served is what was published, or nothing.
TEST_F(StoreTest, VerifyFindsEveryTurnedBit) {
  auto store = Open();
  for (int i = 0; i < 6; ++i) Add(*store, std::to_string(i));
  EXPECT_EQ(store->Verify().damaged, 0u);
  uint64_t turned = 0;
  for (const char* folder : {"blobs", "manifests", "kernels"}) {
    for (const auto& file : fs::recursive_directory_iterator(root_ + "/store/" + folder)) {
      if (!file.is_regular_file() || turned % 7 == 6) continue;
      chmod(file.path().c_str(), 0600);
      std::fstream stream(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      const auto at = std::streamoff((turned * 37) % file.file_size());
      const char byte = char(stream.seekg(at).get());
      stream.seekp(at).put(char(byte ^ (1 << turned % 8)));
      ++turned;
    }
  }
  const Verification found = store->Verify();
  EXPECT_GE(found.damaged, turned);
  EXPECT_EQ(found.unreadable, 0u);
  EXPECT_EQ(store->Verify().damaged, 0u);
  for (int i = 0; i < 6; ++i) {
    const std::string name = std::to_string(i);
    if (const auto program = store->Lookup(Sha256(name)); program.ok()) {
      EXPECT_EQ((*program)->payload, "payload " + name);
    }
    Add(*store, name);
    EXPECT_TRUE(store->Lookup(Sha256(name)).ok());
  }
}

TEST_F(StoreTest, IndexThatAnotherProcessRebuiltIsOpened) {
  auto store = Open();
  const std::string key = Add(*store, "a");
  ASSERT_TRUE(Open()->RebuildIndex().ok());
  Add(*store, "b");
  EXPECT_EQ(store->Count()->programs, 2u);
  EXPECT_EQ(Open()->Count()->programs, 2u);
  EXPECT_TRUE(store->Find(key).ok());
}

TEST_F(StoreTest, ReplacedKeyCountsAtOnce) {
  auto store = Open();
  const std::string a = Add(*store, "a");
  ASSERT_TRUE(store->Lookup(a).ok());
  fs::remove(root_ + "/store/key");
  EXPECT_FALSE(store->Lookup(a).ok());
  Add(*store, "a");
  EXPECT_TRUE(store->Lookup(a).ok());
  EXPECT_TRUE(Open()->Lookup(a).ok());
}

// What is signed with a key that is listed as an old one counts; what is written is signed with the
// new one.
TEST_F(StoreTest, RotatedKeyIsUsedAtOnceAndTheOldOneStillCounts) {
  auto store = Open();
  const std::string a = Add(*store, "a");
  const std::string key = root_ + "/store/key";
  ASSERT_TRUE(Signer::Rotate(key, root_ + "/store/tmp").ok());
  EXPECT_EQ(ModeOf(key), 0600);
  EXPECT_EQ(ModeOf(key + ".old"), 0600);
  EXPECT_TRUE(store->Lookup(a).ok());
  EXPECT_TRUE(store->Detail(a).ok());
  const std::string b = Add(*store, "b");
  EXPECT_TRUE(Open()->Lookup(a).ok());

  fs::remove(key + ".old");
  EXPECT_TRUE(store->Lookup(b).ok());
  EXPECT_FALSE(store->Lookup(a).ok());
  EXPECT_EQ(store->counters().corrupt, 1u);
}

TEST_F(StoreTest, SeveralRotationsKeepSeveralKeys) {
  auto store = Open();
  std::vector<std::string> keys;
  for (int i = 0; i < 10; ++i) {
    keys.push_back(Add(*store, std::string(1, static_cast<char>('a' + i))));
    ASSERT_TRUE(Signer::Rotate(root_ + "/store/key", root_ + "/store/tmp").ok());
  }
  EXPECT_EQ(fs::file_size(root_ + "/store/key.old"), 8u * 32);
  // Signed with the newest eight.
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(store->Lookup(keys[i]).ok(), i >= 2) << i;
}

TEST_F(StoreTest, RotationsAtTheSameMomentLoseNoKey) {
  auto store = Open();
  const std::string a = Add(*store, "a");
  std::vector<std::thread> threads;
  for (int i = 0; i < 7; ++i) {
    threads.emplace_back(
        [&] { EXPECT_TRUE(Signer::Rotate(root_ + "/store/key", root_ + "/store/tmp").ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fs::file_size(root_ + "/store/key.old"), 7u * 32);
  EXPECT_TRUE(store->Lookup(a).ok());
}

TEST_F(StoreTest, UnusableListOfOldKeysChangesNothing) {
  auto store = Open();
  const std::string a = Add(*store, "a");
  const std::string old = root_ + "/store/key.old";
  std::ofstream(old) << std::string(32, 'x');
  fs::permissions(old, fs::perms(0644));
  EXPECT_TRUE(store->Lookup(a).ok());
  // A store that is opened says so.
  const auto other = Store::Open({root_ + "/store"});
  EXPECT_TRUE(absl::IsFailedPrecondition(other.status()));
  EXPECT_THAT(std::string(other.status().message()), ::testing::HasSubstr(old));
  fs::permissions(old, fs::perms(0600));
  std::ofstream(old) << std::string(31, 'x');
  EXPECT_TRUE(absl::IsFailedPrecondition(Store::Open({root_ + "/store"}).status()));
  EXPECT_TRUE(store->Lookup(a).ok());
}

// --- the machine's trouble

// A process of its own, which may open no more files than it has.
TEST_F(StoreTest, NoDescriptorsIsNoDamage) {
  const std::string key = Add(*Open(), "a");
  const auto look_up_twice = [&] {
    auto store = Open();
    const int next = dup(0);
    close(next);
    const auto allow_descriptors = [](int count) {
      const rlimit limit = {static_cast<rlim_t>(count), 100};
      setrlimit(RLIMIT_NOFILE, &limit);
    };
    allow_descriptors(next);
    const absl::Status failed = store->Lookup(key).status();
    allow_descriptors(100);
    const bool found = store->Lookup(key).ok();
    _exit(absl::IsUnavailable(failed) && found && store->counters().corrupt == 0 ? 0 : 1);
  };
  EXPECT_EXIT(look_up_twice(), ::testing::ExitedWithCode(0), "");
  EXPECT_TRUE(fs::exists(PathOf(Sha256(Binary("a", 100)))));
}

// Files may not grow beyond 4 KiB: as on a full disk, what is larger cannot be written.
TEST_F(StoreTest, WhatTheDiskDoesNotTakeIsServedFromMemory) {
  auto store = Open();
  const std::string before = Add(*store, "before");
  signal(SIGXFSZ, SIG_IGN);
  rlimit was{};
  getrlimit(RLIMIT_FSIZE, &was);
  const rlimit small = {4096, was.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string key = Add(*store, "a", 100'000);
  const auto found = store->Lookup(key);
  const auto kernel = store->FindKernel(Sha256("kernel a"));
  const auto blob = store->ReadBlob(Sha256(Binary("a", 100'000)));
  const auto source = store->KernelSource(Sha256("kernel a"));
  const bool hit = store->Lookup(before).ok();
  store->WriteBack();
  const std::string problem = store->problem();
  setrlimit(RLIMIT_FSIZE, &was);

  EXPECT_TRUE(hit);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->payload, "payload a");
  ASSERT_TRUE(kernel.has_value());
  EXPECT_EQ(kernel->facts, "facts a");
  EXPECT_EQ(*blob, Binary("a", 100'000));
  EXPECT_EQ(*source, "source a");
  EXPECT_NE(problem, "");
  EXPECT_FALSE(fs::exists(PathOf(key, "manifests")));

  store->WriteBack();
  EXPECT_EQ(store->problem(), "");
  store.reset();
  store = Open();
  EXPECT_TRUE(store->Lookup(key).ok());
  EXPECT_EQ(store->KernelSource(Sha256("kernel a")).value_or(""), "source a");
}

TEST_F(StoreTest, UnusableFolderSaysWhichPath) {
  std::ofstream(root_ + "/file") << "x";
  const auto store = Store::Open({root_ + "/file/store"});
  EXPECT_THAT(std::string(store.status().message()), HasSubstr(root_ + "/file"));
  const auto open_to_all = root_ + "/open";
  fs::create_directory(open_to_all);
  chmod(open_to_all.c_str(), 0777);
  EXPECT_THAT(std::string(Store::Open({open_to_all}).status().message()), HasSubstr("chmod 700"));
}

TEST_F(StoreTest, KeepsTheNewestRepros) {
  auto store = Open();
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(store->KeepRepro("r" + std::to_string(i), "x").ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(store->root() + "/repros"), {}), 32);
}

TEST_F(StoreTest, SeveralProcessesAndThreadsShareOneFolder) {
  const auto work = [this](int id) {
    StoreOptions options;
    options.root = root_ + "/store";
    options.limit_bytes = kMiB;
    options.keep_ms = 0;
    options.background = true;
    auto store = Store::Open(options);
    if (!store.ok()) return false;
    std::atomic<bool> ok = true;
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 40; ++i) {
          const std::string name = std::to_string(i % 20);
          const std::string key = Sha256(name);
          if (auto found = (*store)->Lookup(key); found.ok()) {
            if ((*found)->payload != "payload " + name) ok = false;
            continue;
          }
          const KernelRow kernel =
              (*store)->PutKernel(Sha256("kernel " + name), Binary(name, 100'000), "source");
          const absl::Status status =
              (*store)->Publish(key, {{kernel.sha256}, "payload " + name, ""}, "", {});
          // Evictions by the other processes are expected; anything else is not.
          if (!status.ok() && !absl::IsAborted(status)) ok = false;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return ok.load();
  };
  std::vector<pid_t> children;
  for (int id = 0; id < 3; ++id) {
    const pid_t child = fork();
    if (child == 0) _exit(work(id) ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(StoreTest, HotLookUpIsFast) {
  auto store = Open();
  const std::string key = Add(*store, "a", 200'000);
  ASSERT_TRUE(store->Lookup(key).ok());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(store->Lookup(key).ok());
  const auto each = (std::chrono::steady_clock::now() - start) / 1000;
  EXPECT_LT(each, std::chrono::microseconds(500));
  RecordProperty("nanoseconds", static_cast<int>(each.count()));
}

}  // namespace store_test
}  // namespace tensord::store
