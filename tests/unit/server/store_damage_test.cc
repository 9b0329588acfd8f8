// SPDX-License-Identifier: Apache-2.0
// Blobs and records that are changed, cut, missing, of another store or of a newer form: nothing of
// them is served.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "server/store/store.h"
#include "tests/unit/server/store_testing.h"

namespace tensord::store {
namespace store_damage_test {

namespace fs = std::filesystem;

class StoreDamageTest : public StoreTest {};

TEST_F(StoreDamageTest, ChangedBlobIsRemovedAndCounted) {
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

TEST_F(StoreDamageTest, MissingBlobIsAMiss) {
  auto store = Open();
  const std::string key = Add(*store, "a");
  fs::remove(PathOf(Sha256(Binary("a", 100))));
  EXPECT_FALSE(store->Lookup(key).ok());
  EXPECT_EQ(store->counters().corrupt, 1u);
}

TEST_F(StoreDamageTest, ManifestOfAnotherStoreOrNameIsRefused) {
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

TEST_F(StoreDamageTest, EveryCutOfAManifestIsAMissNotACrash) {
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

// The record of another kernel under this one's name, as a swapped row of a table would be.
TEST_F(StoreDamageTest, KernelsRecordOfAnotherNameIsRefused) {
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

TEST_F(StoreDamageTest, RecordOfAKernelIsNoProgram) {
  auto store = Open();
  const std::string key = Sha256("same key");
  store->PutKernel(key, "binary", "source");
  fs::create_directories(fs::path(PathOf(key, "manifests")).parent_path());
  fs::copy_file(PathOf(key, "kernels"), PathOf(key, "manifests"));
  EXPECT_FALSE(store->Lookup(key).ok());
}

// A daemon of the version before on a store that a newer one has used, whose index was deleted: the
// index's form, by which it would refuse the store, is not there.
TEST_F(StoreDamageTest, RecordsOfANewerFormAreNotServedAndStay) {
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

// One bit of each file in turn: what is served is what was published, or nothing.
TEST_F(StoreDamageTest, VerifyFindsEveryTurnedBit) {
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

}  // namespace store_damage_test
}  // namespace tensord::store
