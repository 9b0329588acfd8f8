// SPDX-License-Identifier: Apache-2.0
// Which programs are listed, and in which order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/sha256.h"
#include "server/store/store.h"

namespace tensord::store {
namespace index_search_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class IndexSearchTest : public ::testing::Test {
 protected:
  IndexSearchTest() {
    char folder[] = "/tmp/tensord-search-test.XXXXXX";
    root_ = mkdtemp(folder);
    StoreOptions options;
    options.root = root_ + "/store";
    options.now_ms = [this] { return ++now_ms_; };
    store_ = *Store::Open(options);
    Add("Forward", "cpu avx2", 30);
    Add("backward", "cuda sm90", 10);
    Add("inference", "cpu avx512", 20);
  }
  ~IndexSearchTest() override {
    store_.reset();
    std::filesystem::remove_all(root_);
  }

  void Add(const std::string& label, const std::string& target, uint64_t compile_nanoseconds) {
    ProgramFacts facts;
    facts.label = label;
    facts.target = target;
    facts.compile_nanoseconds = compile_nanoseconds;
    ASSERT_TRUE(store_->Publish(Sha256(label), {{}, "payload", ""}, "detail", facts).ok());
  }

  std::vector<std::string> Labels(const ProgramQuery& query) {
    const auto page = store_->Search(query);
    EXPECT_TRUE(page.ok()) << page.status();
    matching_ = page->matching;
    std::vector<std::string> labels;
    for (const ProgramRow& row : page->rows) labels.push_back(row.facts.label);
    return labels;
  }

  std::string root_;
  int64_t now_ms_ = 1'000'000;
  std::unique_ptr<Store> store_;
  uint64_t matching_ = 0;
};

TEST_F(IndexSearchTest, LastUsedFirst) {
  EXPECT_THAT(Labels({}), ElementsAre("inference", "backward", "Forward"));
  EXPECT_EQ(matching_, 3u);
  EXPECT_THAT(Labels({.limit = 1}), ElementsAre("inference"));
  EXPECT_EQ(matching_, 3u);
  EXPECT_THAT(Labels({.limit = 1, .skip = 1}), ElementsAre("backward"));
  EXPECT_THAT(Labels({.skip = 2}), ElementsAre("Forward"));
  EXPECT_THAT(Labels({.skip = 3}), IsEmpty());
  EXPECT_EQ(matching_, 3u);
}

TEST_F(IndexSearchTest, ByKeyLabelAndTarget) {
  EXPECT_THAT(Labels({.search = "WARD"}), ElementsAre("backward", "Forward"));
  EXPECT_EQ(matching_, 2u);
  EXPECT_THAT(Labels({.limit = 1, .skip = 1, .search = "ward"}), ElementsAre("Forward"));
  EXPECT_EQ(matching_, 2u);
  EXPECT_THAT(Labels({.search = "cpu avx"}), ElementsAre("inference", "Forward"));
  EXPECT_THAT(Labels({.search = ToHex(Sha256("backward")).substr(0, 9)}), ElementsAre("backward"));
  // A key is known by its beginning.
  EXPECT_THAT(Labels({.search = ToHex(Sha256("backward")).substr(1, 9)}), IsEmpty());
  EXPECT_EQ(matching_, 0u);
  EXPECT_THAT(Labels({.search = "%"}), IsEmpty());
  EXPECT_THAT(Labels({.search = "' OR 1=1 --"}), IsEmpty());
}

TEST_F(IndexSearchTest, ByOtherOrders) {
  ASSERT_TRUE(store_->Lookup(Sha256("backward")).ok());
  EXPECT_THAT(Labels({.order = ProgramQuery::kCompileTime}),
              ElementsAre("Forward", "inference", "backward"));
  EXPECT_THAT(Labels({.order = ProgramQuery::kCreated}),
              ElementsAre("inference", "backward", "Forward"));
  EXPECT_THAT(Labels({.order = ProgramQuery::kHits}),
              ElementsAre("backward", "inference", "Forward"));
  EXPECT_THAT(Labels({.order = ProgramQuery::kUsed}),
              ElementsAre("backward", "inference", "Forward"));
  EXPECT_EQ(Labels({.order = ProgramQuery::kBytes}).size(), 3u);
}

}  // namespace index_search_test
}  // namespace tensord::store
