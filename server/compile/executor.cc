// SPDX-License-Identifier: Apache-2.0
#include "server/compile/executor.h"

#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <utility>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace tensord::server {
namespace {

// oneTBB's library is not built for ThreadSanitizer, which must be told the order that it keeps: a
// task begins after it was queued, and the wait for all ends after each.
#ifdef __SANITIZE_THREAD__
char tasks;
void Release() { __tsan_release(&tasks); }
void Acquire() { __tsan_acquire(&tasks); }
#else
void Release() {}
void Acquire() {}
#endif

}  // namespace

// The arena's one reserved place is the destructor's, which waits; every other is a thread's.
struct Executor::Threads {
  explicit Threads(int threads)
      // As a rule oneTBB has no more threads than cores; those here sleep most of the time.
      : limit(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads) + 1),
        arena(threads + 1, /*reserved_for_masters=*/1) {}

  tbb::global_control limit;
  tbb::task_arena arena;
  tbb::task_group group;
};

Executor::Executor(int threads) : threads_(std::make_unique<Threads>(threads)) {}

Executor::~Executor() {
  threads_->arena.execute([this] { threads_->group.wait(); });
  Acquire();
}

void Executor::Run(std::function<void()> task) {
  // In oneTBB's task lies an address alone: the library uses a task's memory again for the next, in
  // an order that ThreadSanitizer does not see.
  auto owned = std::make_unique<std::function<void()>>(std::move(task));
  tbb::task_handle handle = threads_->group.defer([address = owned.get()] {
    Acquire();
    {
      const std::unique_ptr<std::function<void()>> task(address);
      (*task)();
    }
    Release();
  });
  owned.release();  // the destructor waits until each has run
  Release();
  threads_->arena.enqueue(std::move(handle));
}

}  // namespace tensord::server
