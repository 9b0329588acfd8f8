// SPDX-License-Identifier: Apache-2.0
// Bounds the bytes of requests that the daemon holds: one that is large is received when there is
// room for it.
#ifndef TENSORD_SERVER_COMPILE_REQUEST_MEMORY_H_
#define TENSORD_SERVER_COMPILE_REQUEST_MEMORY_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <functional>
#include <list>
#include <utility>

#include "base/status.h"

namespace tensord::server {

// Thread-safe. Outlives every share of it.
class RequestMemory {
 public:
  // Requests of at most so many bytes never wait, so that what is small is answered at once
  // whatever is large. They are counted.
  static constexpr uint64_t kSmall = 256 << 10;

  explicit RequestMemory(uint64_t limit) : limit_(limit) {}

  // Bytes that are held, given back when it goes. For one thread at a time.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept {
      std::swap(memory_, other.memory_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() { Resize(0); }
    // Takes or gives back the difference, without waiting.
    void Resize(uint64_t bytes) {
      if (memory_ != nullptr) memory_->Replace(std::exchange(bytes_, bytes), bytes);
    }

   private:
    friend class RequestMemory;
    Share(RequestMemory* memory, uint64_t bytes) : memory_(memory), bytes_(bytes) {}
    RequestMemory* memory_ = nullptr;
    uint64_t bytes_ = 0;
  };
  using Ready = std::function<void(absl::StatusOr<Share>)>;
  using Ticket = uint64_t;

  // Without waiting, whatever is held.
  Share Take(uint64_t bytes);
  // Calls `ready` once, before this returns or later on another thread, when `bytes` fit: in the
  // order of asking, and what is larger than the limit when nothing else is held. Unavailable:
  // Stop() was called.
  Ticket Ask(uint64_t bytes, Ready ready);
  // Whoever still waits is told `why`; nothing happens to others.
  void Cancel(Ticket ticket, const absl::Status& why);
  // Whoever waits, now or later, is told that the daemon is stopping.
  void Stop();

  uint64_t held() const;

 private:
  struct Waiting {
    Ticket ticket;
    uint64_t bytes;
    Ready ready;
  };
  bool Fits(uint64_t bytes) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return held_ == 0 || (held_ <= limit_ && bytes <= limit_ - held_);
  }
  void Replace(uint64_t before, uint64_t after);

  const uint64_t limit_;
  mutable absl::Mutex mutex_;
  uint64_t held_ ABSL_GUARDED_BY(mutex_) = 0;
  Ticket next_ ABSL_GUARDED_BY(mutex_) = 1;
  std::list<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_REQUEST_MEMORY_H_
