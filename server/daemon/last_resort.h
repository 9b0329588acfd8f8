// SPDX-License-Identifier: Apache-2.0
// A stop comes to an end: threads that hang in the operating system (a disk or a shared folder that
// is gone, a resolver that says nothing) can be neither joined nor interrupted.
#ifndef TENSORD_SERVER_DAEMON_LAST_RESORT_H_
#define TENSORD_SERVER_DAEMON_LAST_RESORT_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <functional>
#include <thread>

namespace tensord::server {

// Ends the process with status 0 when the time is up, unless it goes before. What was published
// stays; what jobs used lately, and folders of this daemon's alone, are left as they are.
class LastResort {
 public:
  // `release`: what the next daemon needs, given back first, for a process whose threads hang may
  // outlive its end. It does not wait for a disk.
  LastResort(absl::Duration limit, std::function<void()> release);
  ~LastResort();

 private:
  void Wait();

  const absl::Duration limit_;
  const std::function<void()> release_;
  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_LAST_RESORT_H_
