// SPDX-License-Identifier: Apache-2.0
#include "server/store/memory_store.h"

namespace tensord::store {
namespace {

template <class Map>
auto Find(const Map& map, std::string_view key) -> typename Map::mapped_type {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : found->second;
}

template <class Map>
std::vector<std::pair<std::string, typename Map::mapped_type>> All(const Map& map) {
  return {map.begin(), map.end()};
}

size_t Bytes(const MemoryStore::Kernel& kernel) {
  return kernel.binary.size() + kernel.source.size() + kernel.row.facts.size();
}
size_t Bytes(const MemoryStore::Program& program) {
  return program.record.payload.size() + program.detail.size();
}
size_t Bytes(const MemoryStore::Frame& frame) { return frame.record.payload.size(); }

}  // namespace

void MemoryStore::MakeRoom(size_t bytes) {
  if (bytes_ + bytes > limit_bytes_) {
    kernels_.clear();
    by_digest_.clear();
    programs_.clear();
    frames_.clear();
    bytes_ = 0;
  }
  bytes_ += bytes;
}

void MemoryStore::PutKernel(std::string_view kernel_key, Kernel kernel) {
  absl::MutexLock lock(&mutex_);
  if (Find(kernels_, kernel_key) != nullptr) return;
  MakeRoom(Bytes(kernel));
  const auto held = std::make_shared<const Kernel>(std::move(kernel));
  kernels_.emplace(kernel_key, held);
  by_digest_[held->row.sha256] = held;
}

void MemoryStore::PutProgram(std::string_view key, Program program) {
  absl::MutexLock lock(&mutex_);
  if (Find(programs_, key) != nullptr) return;
  MakeRoom(Bytes(program));
  programs_.emplace(key, std::make_shared<const Program>(std::move(program)));
}

void MemoryStore::PutFrame(std::string_view key, Frame frame) {
  RemoveFrame(std::string(key));
  absl::MutexLock lock(&mutex_);
  MakeRoom(Bytes(frame));
  frames_[std::string(key)] = std::make_shared<const Frame>(std::move(frame));
}

std::shared_ptr<const MemoryStore::Kernel> MemoryStore::FindKernel(
    std::string_view kernel_key) const {
  absl::MutexLock lock(&mutex_);
  return Find(kernels_, kernel_key);
}

std::shared_ptr<const MemoryStore::Program> MemoryStore::FindProgram(std::string_view key) const {
  absl::MutexLock lock(&mutex_);
  return Find(programs_, key);
}

std::shared_ptr<const MemoryStore::Frame> MemoryStore::FindFrame(std::string_view key) const {
  absl::MutexLock lock(&mutex_);
  return Find(frames_, key);
}

std::shared_ptr<const MemoryStore::Kernel> MemoryStore::FindBlob(std::string_view sha256) const {
  absl::MutexLock lock(&mutex_);
  return Find(by_digest_, sha256);
}

bool MemoryStore::empty() const {
  absl::MutexLock lock(&mutex_);
  return kernels_.empty() && programs_.empty() && frames_.empty();
}

std::vector<std::pair<std::string, std::shared_ptr<const MemoryStore::Kernel>>>
MemoryStore::Kernels() const {
  absl::MutexLock lock(&mutex_);
  return All(kernels_);
}

std::vector<std::pair<std::string, std::shared_ptr<const MemoryStore::Program>>>
MemoryStore::Programs() const {
  absl::MutexLock lock(&mutex_);
  return All(programs_);
}

std::vector<std::pair<std::string, std::shared_ptr<const MemoryStore::Frame>>> MemoryStore::Frames()
    const {
  absl::MutexLock lock(&mutex_);
  return All(frames_);
}

void MemoryStore::RemoveKernel(const std::string& kernel_key) {
  absl::MutexLock lock(&mutex_);
  const auto found = kernels_.find(kernel_key);
  if (found == kernels_.end()) return;
  bytes_ -= Bytes(*found->second);
  by_digest_.erase(found->second->row.sha256);
  kernels_.erase(found);
}

void MemoryStore::RemoveProgram(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  const auto found = programs_.find(key);
  if (found == programs_.end()) return;
  bytes_ -= Bytes(*found->second);
  programs_.erase(found);
}

void MemoryStore::RemoveFrame(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  const auto found = frames_.find(key);
  if (found == frames_.end()) return;
  bytes_ -= Bytes(*found->second);
  frames_.erase(found);
}

}  // namespace tensord::store
