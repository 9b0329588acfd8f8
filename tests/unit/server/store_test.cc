// SPDX-License-Identifier: Apache-2.0
#include "server/store/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/sha256.h"
#include "server/store/sqlite.h"

namespace tensord::store {
namespace {

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
    auto kernel = store.PutKernel(Sha256("kernel " + name), Binary(name, size), "source " + name);
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    const absl::Status status = store.Publish(key, {{kernel->sha256}, "payload " + name},
                                              "detail " + name, {name, "cpu avx2", 3, 1, 0, 42});
    EXPECT_TRUE(status.ok()) << status;
    return key;
  }
  static std::string Binary(const std::string& name, size_t size) {
    return name + std::string(size, '.');
  }
  std::string PathOf(const Store& store, const std::string& sha256) {
    const std::string hex = ToHex(sha256);
    return store.blob_folder() + "/" + hex.substr(0, 2) + "/" + hex;
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
  EXPECT_EQ(ModeOf(PathOf(*store, (*store->Lookup(key))->blobs[0])), 0444);
  EXPECT_TRUE(fs::is_empty(store->root() + "/tmp"));
}

TEST_F(StoreTest, ChangedBlobIsRemovedAndCounted) {
  auto store = Open();
  const std::string key = Add(*store, "a");
  const std::string blob = (*store->Lookup(key))->blobs[0];
  const std::string path = PathOf(*store, blob);
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
  fs::remove(PathOf(*store, Sha256(Binary("a", 100))));
  EXPECT_FALSE(store->Lookup(key).ok());
  EXPECT_EQ(store->counters().corrupt, 1u);
}

TEST_F(StoreTest, ManifestOfAnotherStoreOrNameIsRefused) {
  auto store = Open();
  const std::string a = Add(*store, "a");
  const std::string b = Add(*store, "b");
  const auto path = [&](const std::string& key) {
    const std::string hex = ToHex(key);
    return store->root() + "/manifests/" + hex.substr(0, 2) + "/" + hex;
  };
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
  const std::string hex = ToHex(key);
  const std::string path = store->root() + "/manifests/" + hex.substr(0, 2) + "/" + hex;
  const std::string whole = *ReadFile(path);
  for (size_t size = 0; size < whole.size(); size += 7) {
    fs::remove(path);
    std::ofstream(path) << whole.substr(0, size);
    EXPECT_FALSE(store->Lookup(key).ok()) << size;
  }
  for (size_t at = 0; at < whole.size(); at += 5) {
    std::string changed = whole;
    changed[at] ^= 0x40;
    fs::remove(path);
    std::ofstream(path) << changed;
    // Only the detail part may change without the payload's signature noticing.
    if (auto found = store->Lookup(key); found.ok()) {
      EXPECT_EQ((*found)->payload, "payload a");
      EXPECT_FALSE(store->Detail(key).ok()) << at;
    }
  }
}

TEST_F(StoreTest, EvictsTheLeastRecentlyUsedButNothingOfTheLastMinute) {
  auto store = Open(/*limit=*/4500);
  const std::string old = Add(*store, "old", 1500);
  now_ms_ += 1000;
  const std::string used = Add(*store, "used", 1500);
  now_ms_ += 100'000;
  EXPECT_TRUE(store->Lookup(used).ok());
  const std::string fresh = Add(*store, "fresh", 1500);
  EXPECT_EQ(store->Lookup(old).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(store->Lookup(used).ok());
  EXPECT_TRUE(store->Lookup(fresh).ok());
  EXPECT_EQ(store->counters().evicted, 1u);
  EXPECT_EQ(store->counters().corrupt, 0u);
  EXPECT_FALSE(fs::exists(PathOf(*store, Sha256(Binary("old", 1500)))));
  // All in use: over the limit, yet nothing goes.
  const std::string more = Add(*store, "more", 3000);
  EXPECT_TRUE(store->Lookup(used).ok());
  EXPECT_TRUE(store->Lookup(more).ok());
}

TEST_F(StoreTest, SharedBlobStaysWhileAProgramNeedsIt) {
  auto store = Open(/*limit=*/4000);
  const auto kernel = store->PutKernel("k", std::string(2000, 'x'), "");
  const std::string a = Sha256("a"), b = Sha256("b");
  ASSERT_TRUE(store->Publish(a, {{kernel->sha256}, "a"}, "", {}).ok());
  now_ms_ += 1000;
  ASSERT_TRUE(store->Publish(b, {{kernel->sha256}, "b"}, "", {}).ok());
  now_ms_ += 100'000;
  ASSERT_TRUE(store->Lookup(b).ok());
  Add(*store, "filler", 2500);
  EXPECT_FALSE(store->Lookup(a).ok());
  EXPECT_TRUE(store->Lookup(b).ok());
}

TEST_F(StoreTest, PublishingAProgramWhoseKernelIsGoneIsAborted) {
  auto store = Open();
  const absl::Status status = store->Publish(Sha256("a"), {{Sha256("no such")}, ""}, "", {});
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
  ASSERT_TRUE(store->PutKernel("k", "binary", "source", std::string("\0facts", 6)).ok());
  EXPECT_EQ(store->FindKernel("k")->facts, std::string("\0facts", 6));
}

// An index of form 1, which had no facts, is taken over.
TEST_F(StoreTest, OlderIndexIsUpgraded) {
  const std::string key = Add(*Open(), "a");
  {
    auto database = Database::Open(root_ + "/store/index.sqlite");
    ASSERT_TRUE(
        database->Execute("ALTER TABLE kernels DROP COLUMN facts; PRAGMA user_version=1").ok());
  }
  auto store = Open();
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(store->Lookup(key).ok());
  EXPECT_EQ(store->FindKernel(Sha256("kernel a"))->facts, "");
  ASSERT_TRUE(store->PutKernel("k", "binary", "source", "facts").ok());
  EXPECT_EQ(store->FindKernel("k")->facts, "facts");
}

TEST_F(StoreTest, DamagedIndexStartsEmpty) {
  { Add(*Open(), "a"); }
  for (const char* suffix : {"-wal", "-shm"}) fs::remove(root_ + "/store/index.sqlite" + suffix);
  std::ofstream(root_ + "/store/index.sqlite", std::ios::trunc) << std::string(8192, 'x');
  auto store = Open();
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->Count()->programs, 0u);
  Add(*store, "b");
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
  now_ms_ = 0;
  const auto work = [this](int id) {
    auto store = Store::Open({root_ + "/store", 40'000, 0});
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
          const auto kernel =
              (*store)->PutKernel(Sha256("kernel " + name), Binary(name, 4000), "source");
          if (!kernel.ok()) ok = false;
          if (!kernel.ok()) continue;
          const absl::Status status =
              (*store)->Publish(key, {{kernel->sha256}, "payload " + name}, "", {});
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

}  // namespace
}  // namespace tensord::store
