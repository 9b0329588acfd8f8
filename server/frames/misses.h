// SPDX-License-Identifier: Apache-2.0
// Why frames that jobs tried did not serve: the latest, in memory.
#ifndef TENSORD_SERVER_FRAMES_MISSES_H_
#define TENSORD_SERVER_FRAMES_MISSES_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tensord/v1/requests.pb.h"

namespace tensord::server {

// A text for people, of at most `most` bytes and whole characters.
std::string Shortened(std::string text, size_t most);

// One entry a frame and guard, with how often; of more than `most` the oldest goes. Thread-safe.
class Misses {
 public:
  explicit Misses(size_t most) : most_(most) {}

  // key and guard name an entry; found, caller and the time are the latest's.
  void Add(const v1::FrameMiss& miss, int64_t now_unix);
  // Of frames whose key begins with `key_prefix` ("": all), and whose caller is of `job` ("": any),
  // the latest first; `limit` 0: all.
  std::vector<v1::FrameMiss> List(const std::string& key_prefix, size_t limit,
                                  const std::string& job = "") const;

 private:
  const size_t most_;
  mutable absl::Mutex mutex_;
  std::list<v1::FrameMiss> latest_ ABSL_GUARDED_BY(mutex_);  // first
  std::map<std::pair<std::string, std::string>, std::list<v1::FrameMiss>::iterator> by_guard_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_FRAMES_MISSES_H_
