// SPDX-License-Identifier: Apache-2.0
// Programs and kernels as a store serves them, which of them it evicts, several processes on one
// folder, and the machine's trouble: no descriptors, a full disk, a folder that is gone.
#include "server/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/sha256.h"
#include "tests/unit/server/store_testing.h"

namespace tensord::store {
namespace store_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST_F(StoreTest, KeepsTheNewestRepros) {
  auto store = Open();
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(store->KeepRepro("r" + std::to_string(i), "x").ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(store->root() + "/repros"), {}), 32);
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

}  // namespace store_test
}  // namespace tensord::store
