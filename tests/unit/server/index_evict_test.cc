// SPDX-License-Identifier: Apache-2.0
// What evictions take, in which order, and what they cost.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "server/store/index.h"

namespace tensord::store {
namespace index_evict_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kLongAgo = 1000, kNow = 1'000'000;
constexpr int64_t kForEver = INT64_MAX;  // to keep nothing

std::string BlobOf(int kernel) { return Sha256(absl::StrCat("blob ", kernel)); }
std::string KernelOf(int kernel) { return Sha256(absl::StrCat("kernel ", kernel)); }
std::string ProgramOf(int program) { return Sha256(absl::StrCat("program ", program)); }

class IndexEvictTest : public ::testing::Test {
 protected:
  IndexEvictTest() {
    char folder[] = "/tmp/tensord-evict-test.XXXXXX";
    root_ = mkdtemp(folder);
  }
  ~IndexEvictTest() override { std::filesystem::remove_all(root_); }

  std::string PathOf(const std::string& name) const { return root_ + "/" + name; }
  Index Open(const std::string& name) {
    bool empty = false;
    auto index = Index::Open(PathOf(name), &empty);
    EXPECT_TRUE(index.ok()) << index.status();
    return *std::move(index);
  }

  static void AddKernel(Index& index, int kernel, int64_t used_ms) {
    ASSERT_TRUE(index.AddKernels({{{KernelOf(kernel), 10}, {BlobOf(kernel), 100}, used_ms}}).ok());
  }
  static Index::Program Program(int number, int kernel, int64_t used_ms) {
    ProgramRow row;
    row.key = ProgramOf(number);
    row.used_ms = row.created_ms = used_ms;
    return {row, 10, {{BlobOf(kernel), 100}}};
  }
  static void AddFrame(Index& index, int number, int64_t used_ms) {
    FrameRow row;
    row.key = Sha256(absl::StrCat("frame ", number));
    row.facts.code = Sha256(absl::StrCat("code ", number));
    row.facts.environment = "environment";
    row.used_ms = used_ms;
    row.bytes = 10;
    ASSERT_TRUE(index.AddFrames({row}, Ignore()).ok());
  }
  // So many programs of long ago, of which two share a kernel, and a frame for ten of them.
  Index Filled(const std::string& name, int programs) {
    Index index = Open(name);
    std::vector<Index::Kernel> kernels;
    std::vector<Index::Program> rows;
    for (int i = 0; i < programs; ++i) {
      if (i % 2 == 0) {
        kernels.push_back({{KernelOf(i / 2), 10}, {BlobOf(i / 2), 100}, kLongAgo});
      }
      rows.push_back(Program(i, i / 2, kLongAgo + i));
      if (i % 10 == 0) AddFrame(index, i, kLongAgo + i);
    }
    EXPECT_TRUE(index.AddKernels(kernels).ok());
    EXPECT_TRUE(index.AddPrograms(rows, [](const Index::Program&) { return true; }).ok());
    return index;
  }

  static Index::Drop Ignore() {
    const auto ignore = [](std::string_view) {};
    return {ignore, ignore, ignore, ignore};
  }
  // Notes what goes in `gone_`.
  Index::Drop Note() {
    const auto note = [this](const char* kind) {
      return [this, kind](std::string_view name) {
        gone_.push_back(absl::StrCat(kind, " ", ToHex(name).substr(0, 8)));
      };
    };
    return {note("program"), note("kernel"), note("blob"), note("frame")};
  }
  static std::string Named(const char* kind, const std::string& name) {
    return absl::StrCat(kind, " ", ToHex(name).substr(0, 8));
  }

  // How many went, and the steps that it took.
  static uint64_t Evict(Index& index, int64_t keep_since_ms, uint64_t* steps) {
    const uint64_t before = index.Work();
    const auto gone = index.Evict(0, keep_since_ms, Ignore());
    EXPECT_TRUE(gone.ok()) << gone.status();
    *steps = index.Work() - before;
    return *gone;
  }

  std::string root_;
  std::vector<std::string> gone_;
};

TEST_F(IndexEvictTest, CostsAsMuchInALargeIndexAsInASmallOne) {
  Index small = Filled("small", 200), large = Filled("large", 10'000);
  uint64_t of_small = 0, of_large = 0;
  EXPECT_EQ(Evict(small, kForEver, &of_small), kEvictedAtOnce);
  EXPECT_EQ(Evict(large, kForEver, &of_large), kEvictedAtOnce);
  EXPECT_GT(of_small, kEvictedAtOnce);
  EXPECT_LT(of_large, of_small + of_small / 10);
  // So does the next one, and one that finds nothing old enough.
  EXPECT_EQ(Evict(large, kForEver, &of_large), kEvictedAtOnce);
  EXPECT_LT(of_large, of_small + of_small / 10);
  EXPECT_EQ(Evict(large, kLongAgo, &of_large), 0u);
  EXPECT_LT(of_large, of_small);
}

TEST_F(IndexEvictTest, KernelsOfNoProgramThatWereUsedLatelyAreLookedAtOnce) {
  constexpr int kUnused = 2000;
  Index index = Filled("index", 200);
  std::vector<Index::Kernel> kernels;
  for (int i = 1000; i < 1000 + kUnused; ++i) {
    kernels.push_back({{KernelOf(i), 10}, {BlobOf(i), 100}, kNow});
  }
  ASSERT_TRUE(index.AddKernels(kernels).ok());
  uint64_t first = 0, second = 0;
  EXPECT_EQ(Evict(index, kNow, &first), kEvictedAtOnce);
  EXPECT_EQ(Evict(index, kNow, &second), kEvictedAtOnce);
  EXPECT_GT(first, second + kUnused);
  // They are still there, and go when they are old.
  EXPECT_TRUE(*index.HasKernel(KernelOf(1000)));
  EXPECT_EQ(Evict(index, kNow + 1, &second), kEvictedAtOnce);
  int left = 0;
  for (int i = 1000; i < 1000 + kUnused; ++i) left += *index.HasKernel(KernelOf(i));
  EXPECT_EQ(left, kUnused - static_cast<int>(kEvictedAtOnce));
}

TEST_F(IndexEvictTest, KernelsWithoutAProgramGoFirstThenTheOldest) {
  Index index = Open("index");
  for (int kernel : {1, 2, 3}) AddKernel(index, kernel, kLongAgo);
  const auto always = [](const Index::Program&) { return true; };
  ASSERT_TRUE(
      index.AddPrograms({Program(1, 1, kLongAgo + 2), Program(2, 2, kLongAgo)}, always).ok());
  AddFrame(index, 1, kLongAgo + 1);
  const uint64_t all = index.Count()->bytes;
  const auto evict_to = [&](uint64_t bytes) {
    gone_.clear();
    EXPECT_EQ(*index.Evict(bytes, kForEver, Note()), 1u);
    return gone_;
  };
  EXPECT_THAT(evict_to(all - 1),
              ElementsAre(Named("kernel", KernelOf(3)), Named("blob", BlobOf(3))));
  const uint64_t left = index.Count()->bytes;
  EXPECT_EQ(left, all - 110);
  EXPECT_THAT(evict_to(left - 1),
              ElementsAre(Named("program", ProgramOf(2)), Named("kernel", KernelOf(2)),
                          Named("blob", BlobOf(2))));
  EXPECT_THAT(evict_to(left - 121), ElementsAre(Named("frame", Sha256("frame 1"))));
  gone_.clear();
  EXPECT_EQ(*index.Evict(index.Count()->bytes, kForEver, Note()), 0u);  // that is little enough
  EXPECT_THAT(gone_, IsEmpty());
}

TEST_F(IndexEvictTest, ABlobIsUnusedOnceNoProgramIsLeft) {
  Index index = Open("index");
  AddKernel(index, 1, kLongAgo);
  const auto always = [](const Index::Program&) { return true; };
  ASSERT_TRUE(index.AddPrograms({Program(1, 1, kNow), Program(2, 1, kNow)}, always).ok());
  const auto evict = [&] { return *index.Evict(0, kLongAgo + 1, Note()); };
  EXPECT_EQ(evict(), 0u);
  ASSERT_TRUE(index.RemoveProgram(ProgramOf(1)).ok());
  EXPECT_EQ(evict(), 0u);
  // One that comes again, and one that is damaged and made anew.
  ASSERT_TRUE(index.AddPrograms({Program(1, 1, kNow)}, always).ok());
  ASSERT_TRUE(index.RemoveBlob(BlobOf(1)).ok());
  AddKernel(index, 1, kLongAgo);
  EXPECT_EQ(evict(), 0u);
  ASSERT_TRUE(index.RemoveProgram(ProgramOf(1)).ok());
  ASSERT_TRUE(index.RemoveProgram(ProgramOf(2)).ok());
  EXPECT_EQ(evict(), 1u);
  EXPECT_FALSE(*index.HasBlob(BlobOf(1)));
}

// The tables of a daemon of before, which another such daemon may have open.
TEST_F(IndexEvictTest, AnIndexWithoutTheListOfUnusedBlobsIsGivenOne) {
  { Index index = Filled("index", 10); }
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(PathOf("index").c_str(), &database), SQLITE_OK);
  const auto execute = [&](const std::string& sql) {
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sql;
  };
  execute(
      "DROP TRIGGER unused_blob_added; DROP TRIGGER unused_blob_removed; DROP TRIGGER blob_used; "
      "DROP TRIGGER blob_left; DROP TABLE unused_blobs");
  execute(absl::StrCat("INSERT INTO blobs VALUES(x'", ToHex(BlobOf(77)), "', 5)"));
  Index index = Open("index");
  EXPECT_EQ(*index.Evict(index.Count()->bytes - 1, kForEver, Note()), 1u);
  EXPECT_THAT(gone_, ElementsAre(Named("blob", BlobOf(77))));
  // What that daemon changes is noted too.
  execute(absl::StrCat("INSERT INTO blobs VALUES(x'", ToHex(BlobOf(78)), "', 5)"));
  sqlite3_close(database);
  gone_.clear();
  EXPECT_EQ(*index.Evict(index.Count()->bytes - 1, kForEver, Note()), 1u);
  EXPECT_THAT(gone_, ElementsAre(Named("blob", BlobOf(78))));
}

}  // namespace index_evict_test
}  // namespace tensord::store
