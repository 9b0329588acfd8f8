// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/store.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "server/ctl/client.h"
#include "server/ctl/numbers.h"
#include "server/ctl/view/table.h"
#include "server/store/signer.h"
#include "server/store/store.h"

namespace tensord::server {
namespace {

namespace fs = std::filesystem;

// The limit is the daemon's to keep.
std::unique_ptr<store::Store> Open(const StoreCommand& command) {
  return OpenStore(command.root, /*limit_bytes=*/0);
}

uint64_t BytesBelow(const fs::path& path) {
  std::error_code error;  // what vanishes meanwhile takes nothing
  if (!fs::is_directory(path, error)) return store::BytesOnDisk(path);
  uint64_t bytes = 0;
  for (fs::recursive_directory_iterator it(path, error), end; it != end; it.increment(error)) {
    if (it->is_regular_file(error)) bytes += store::BytesOnDisk(it->path());
  }
  return bytes;
}

}  // namespace

std::unique_ptr<store::Store> OpenStore(const std::string& root, uint64_t limit_bytes) {
  if (!fs::is_directory(root)) {
    std::fprintf(stderr, "tensorctl: there is no store %s\n", root.c_str());
    return nullptr;
  }
  return OpenOrMakeStore(root, limit_bytes);
}

std::unique_ptr<store::Store> OpenOrMakeStore(const std::string& root, uint64_t limit_bytes) {
  store::StoreOptions options;
  options.root = root;
  options.limit_bytes = limit_bytes;
  auto store = store::Store::Open(std::move(options));
  if (store.ok()) return *std::move(store);
  std::fprintf(stderr, "tensorctl: %s\n", std::string(store.status().message()).c_str());
  return nullptr;
}

int VerifyStore(const StoreCommand& command) {
  const auto store = Open(command);
  if (store == nullptr) return kExitError;
  const store::Verification found = store->Verify();
  PrintNumbers(command.root, command.json,
               {{"programs", found.programs},
                {"kernels", found.kernels},
                {"frames", found.frames},
                {"blobs", found.blobs},
                {"damaged", found.damaged},
                {"unreadable", found.unreadable}});
  return found.damaged + found.unreadable == 0 ? kExitOk : kExitError;
}

int CollectGarbage(const StoreCommand& command) {
  const auto store = Open(command);
  if (store == nullptr) return kExitError;
  const uint64_t before = BytesBelow(command.root);
  store->Reconcile();
  const uint64_t after = BytesBelow(command.root);
  PrintNumbers(command.root, command.json,
               {{"freed", before - std::min(before, after)}, {"left", after}}, HumanBytes);
  return kExitOk;
}

int DiskUsage(const StoreCommand& command) {
  if (!fs::is_directory(command.root)) return Open(command) == nullptr ? kExitError : kExitOk;
  Numbers numbers;
  uint64_t all = 0, other = 0;
  for (const auto& entry : fs::directory_iterator(command.root)) {
    const std::string name = entry.path().filename();
    const uint64_t bytes = BytesBelow(entry.path());
    all += bytes;
    if (entry.is_directory()) {
      numbers.emplace_back(name, bytes);
    } else if (name.rfind("index.sqlite", 0) == 0) {
      other += bytes;
    }
  }
  numbers.emplace_back("index", other);
  std::sort(numbers.begin(), numbers.end());
  numbers.emplace_back("all", all);
  PrintNumbers(command.root, command.json, numbers, HumanBytes);
  return kExitOk;
}

int RebuildIndex(const StoreCommand& command) {
  const auto store = Open(command);
  if (store == nullptr) return kExitError;
  if (const absl::Status status = store->RebuildIndex(); !status.ok()) {
    std::fprintf(stderr, "tensorctl: %s\n", std::string(status.message()).c_str());
    return kExitError;
  }
  const auto totals = store->Count();
  PrintNumbers(command.root, command.json,
               {{"programs", totals.ok() ? totals->programs : 0},
                {"frames", totals.ok() ? totals->frames : 0}});
  return kExitOk;
}

int RotateKey(const StoreCommand& command) {
  const absl::Status status = store::Signer::Rotate(command.root + "/key", command.root + "/tmp");
  if (status.ok()) return kExitOk;
  std::fprintf(stderr, "tensorctl: %s\n", std::string(status.message()).c_str());
  return kExitError;
}

}  // namespace tensord::server
