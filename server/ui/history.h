// SPDX-License-Identifier: Apache-2.0
// The statistics of the last hour, for whoever looks at them later.
#ifndef TENSORD_SERVER_UI_HISTORY_H_
#define TENSORD_SERVER_UI_HISTORY_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tensord/v1/stats.pb.h"

namespace tensord::server {

class History {
 public:
  // `read` is asked at once and then every `interval`, by a thread; the last `most` answers stay.
  History(std::function<void(v1::Stats*)> read, absl::Duration interval = absl::Seconds(2),
          size_t most = 1800);
  ~History();

  // {"fields": [names of stats.proto], "times": [milliseconds since the epoch], "values": [[of the
  // first field], ...]}, of what was read after `since_ms`.
  std::string ToJson(int64_t since_ms) const;

 private:
  struct Sample {
    int64_t time_ms;
    std::vector<uint64_t> values;  // by field
  };

  void Read();
  void Run();  // a thread's

  const std::function<void(v1::Stats*)> read_;
  const absl::Duration interval_;
  const size_t most_;
  mutable absl::Mutex mutex_;
  std::deque<Sample> samples_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_UI_HISTORY_H_
