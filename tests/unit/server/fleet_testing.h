// SPDX-License-Identifier: Apache-2.0
// What tests of the fleet share: keys in a temporary folder, a tier in memory that misbehaves as it
// is told.
#ifndef TENSORD_TESTS_UNIT_SERVER_FLEET_TESTING_H_
#define TENSORD_TESTS_UNIT_SERVER_FLEET_TESTING_H_

#include <absl/synchronization/notification.h>
#include <absl/time/clock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "server/fleet/fleet.h"
#include "server/fleet/keys.h"
#include "server/fleet/tier.h"

namespace tensord::fleet {

// For ever, to a test: much else may run on the host.
inline constexpr absl::Duration kLong = absl::Seconds(30);

// What several tiers have together: the server.
struct FakeServer {
  absl::Mutex mutex;
  std::map<std::string, std::string> objects;
  std::map<std::string, std::pair<std::string, absl::Time>> leases;
  absl::Status status;      // of every call
  absl::Status put_status;  // of those that write
  // Of every call, whatever its deadline; ends for all when it is set to zero.
  absl::Duration delay;
  int calls = 0;
  int puts = 0;
};

class FakeTier : public Tier {
 public:
  explicit FakeTier(std::shared_ptr<FakeServer> server) : server_(std::move(server)) {}

  std::string Where() const override { return "fake://"; }
  absl::StatusOr<std::vector<std::optional<std::string>>> Get(const std::vector<Wanted>& wanted,
                                                              absl::Time) override {
    TENSORD_RETURN_IF_ERROR(Call());
    absl::MutexLock lock(&server_->mutex);
    std::vector<std::optional<std::string>> all;
    for (const Wanted& one : wanted) {
      const auto found = server_->objects.find(one.name);
      all.push_back(found == server_->objects.end() ? std::nullopt : std::optional(found->second));
    }
    return all;
  }
  absl::Status Put(const std::vector<Object>& objects, absl::Time) override {
    TENSORD_RETURN_IF_ERROR(Call());
    absl::MutexLock lock(&server_->mutex);
    if (!server_->put_status.ok()) return server_->put_status;
    ++server_->puts;
    for (const Object& object : objects) server_->objects[object.name] = object.value;
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Claim(const std::string& name, const std::string& value,
                                    absl::Duration lifetime, absl::Time) override {
    TENSORD_RETURN_IF_ERROR(Call());
    absl::MutexLock lock(&server_->mutex);
    if (!server_->put_status.ok()) return server_->put_status;
    auto& lease = server_->leases[name];
    if (lease.second < absl::Now()) lease = {value, absl::Now() + lifetime};
    return lease.first;
  }
  absl::Status Release(const std::string& name, const std::string& value, absl::Time) override {
    TENSORD_RETURN_IF_ERROR(Call());
    absl::MutexLock lock(&server_->mutex);
    if (server_->leases[name].first == value) server_->leases.erase(name);
    return absl::OkStatus();
  }

 private:
  absl::Status Call() {
    absl::MutexLock lock(&server_->mutex);
    ++server_->calls;
    const auto speaks = [this] { return server_->delay == absl::ZeroDuration(); };
    server_->mutex.AwaitWithTimeout(absl::Condition(&speaks), server_->delay);
    return server_->status;
  }

  const std::shared_ptr<FakeServer> server_;
};

class FleetFolderTest : public ::testing::Test {
 protected:
  FleetFolderTest() {
    char folder[] = "/tmp/tensord-fleet-test.XXXXXX";
    folder_ = mkdtemp(folder);
    trust_ = folder_ + "/trust";
    AddKey("key");
  }
  ~FleetFolderTest() override { std::filesystem::remove_all(folder_); }

  std::string KeyPath(const std::string& name) const { return folder_ + "/" + name; }
  // Makes a key that everybody trusts.
  void AddKey(const std::string& name) {
    const auto line = Keys::Make(KeyPath(name), name);
    ASSERT_TRUE(line.ok()) << line.status();
    std::ofstream(trust_, std::ios::app) << *line << "\n";
  }
  std::unique_ptr<Keys> OpenKeys(const std::string& name = "key") const {
    auto keys = Keys::Open(name.empty() ? "" : KeyPath(name), trust_);
    EXPECT_TRUE(keys.ok()) << keys.status();
    return *std::move(keys);
  }

  std::string folder_;
  std::string trust_;
};

inline Name TestName(const std::string& text = "a program") { return {"program", Sha256(text)}; }

inline Parcel TestParcel(const std::string& content, const std::vector<std::string>& blobs) {
  Parcel parcel;
  parcel.content = content;
  for (const std::string& blob : blobs) parcel.blobs.push_back({Sha256(blob), "note", blob});
  return parcel;
}

}  // namespace tensord::fleet

#endif  // TENSORD_TESTS_UNIT_SERVER_FLEET_TESTING_H_
