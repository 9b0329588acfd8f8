// SPDX-License-Identifier: Apache-2.0
// A few threads for what waits for somebody's disk or server, in the order of coming, and one that
// keeps the time: a caller is answered on time also when all others hang in the operating system.
// Not oneTBB's, which has one set of threads a process: those that hang here would be missing where
// compiles wait (server/compile/executor.h).
#ifndef TENSORD_BASE_THREADS_H_
#define TENSORD_BASE_THREADS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <vector>

namespace tensord {

// Every function may be called from several threads.
class Threads {
 public:
  using Task = std::function<void()>;

  explicit Threads(int threads);
  ~Threads() { Stop(); }

  // Queues `task`, which may block.
  void Run(Task task);
  // Runs `task`, which does not block, when it is time.
  void RunAt(absl::Time time, Task task);
  // Ends the threads behind what they do; what is queued goes. Not to be called by a task.
  void Stop();

 private:
  void Work();
  void KeepTime();

  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  std::multimap<absl::Time, Task> timed_ ABSL_GUARDED_BY(mutex_);
  absl::Mutex joining_;  // before mutex_
  std::vector<std::thread> threads_;
};

}  // namespace tensord

#endif  // TENSORD_BASE_THREADS_H_
