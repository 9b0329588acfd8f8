// SPDX-License-Identifier: Apache-2.0
// Programs that were compiled, and why: the latest, in memory.
#ifndef TENSORD_SERVER_COMPILE_PROGRAM_MISSES_H_
#define TENSORD_SERVER_COMPILE_PROGRAM_MISSES_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <list>
#include <map>
#include <string>

#include "tensord/v1/requests.pb.h"

namespace tensord::server {

// One entry a program, with how often it was missed; of more than `most` the oldest goes.
// Thread-safe.
class ProgramMisses {
 public:
  explicit ProgramMisses(size_t most) : most_(most) {}

  // The latest of a key counts; `miss.last_unix` is now.
  void Add(v1::ProgramMiss miss);
  // Adds those that the request is for, the latest first.
  void List(const v1::ListMissesRequest& request, v1::ListMissesReply* reply) const;

 private:
  const size_t most_;
  mutable absl::Mutex mutex_;
  std::list<v1::ProgramMiss> latest_ ABSL_GUARDED_BY(mutex_);  // first
  std::map<std::string, std::list<v1::ProgramMiss>::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_PROGRAM_MISSES_H_
