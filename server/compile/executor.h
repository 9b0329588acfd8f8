// SPDX-License-Identifier: Apache-2.0
// Threads for work that waits: for workers, and for kernels that other compiles make.
#ifndef TENSORD_SERVER_COMPILE_EXECUTOR_H_
#define TENSORD_SERVER_COMPILE_EXECUTOR_H_

#include <functional>
#include <memory>

namespace tensord::server {

class Executor {
 public:
  // At most `threads` run at once, whatever the number of cores. They start when they are first
  // needed.
  explicit Executor(int threads);
  // Runs what is queued, then ends.
  ~Executor();

  // Queues `task`, which may block, in no order. Thread-safe.
  void Run(std::function<void()> task);

 private:
  struct Threads;  // oneTBB's, kept out of this header
  std::unique_ptr<Threads> threads_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_EXECUTOR_H_
