// SPDX-License-Identifier: Apache-2.0
// A store in a temporary folder, programs to put into it, and its files.
#ifndef TENSORD_TESTS_UNIT_SERVER_STORE_TESTING_H_
#define TENSORD_TESTS_UNIT_SERVER_STORE_TESTING_H_

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "base/sha256.h"
#include "server/store/sqlite.h"
#include "server/store/store.h"

namespace tensord::store {

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    char folder[] = "/tmp/tensord-store-test.XXXXXX";
    root_ = mkdtemp(folder);
  }
  ~StoreTest() override { std::filesystem::remove_all(root_); }

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

inline mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

}  // namespace tensord::store

#endif  // TENSORD_TESTS_UNIT_SERVER_STORE_TESTING_H_
