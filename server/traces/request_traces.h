// SPDX-License-Identifier: Apache-2.0
// The latest requests for each program: what each waited for, in the daemon, in workers and in the
// job. In memory, for people.
#ifndef TENSORD_SERVER_TRACES_REQUEST_TRACES_H_
#define TENSORD_SERVER_TRACES_REQUEST_TRACES_H_

#include <absl/base/thread_annotations.h>
#include <absl/container/inlined_vector.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::server {

// A part of a request's way through the daemon. No message: a look-up takes microseconds, and most
// that is noted nobody will read.
struct Mark {
  const char* name;
  uint64_t start, end;  // of the spans' clock
  const char* detail = "";
};
using Marks = absl::InlinedVector<Mark, 6>;

// What the compile did that requests waited for.
struct CompileSpans {
  explicit CompileSpans(std::vector<v1::Span> spans);
  const std::vector<v1::Span> spans;
  size_t bytes = 0;
};

// A request that has its answer.
struct SeenRequest {
  uint64_t id = 0;
  std::string key;  // empty: it failed before there was one
  v1::Caller caller;
  std::string label, error;
  const char* outcome = "";
  uint64_t start = 0, end = 0;  // of the spans' clock
  int64_t start_unix_nanoseconds = 0;
  Marks marks;
  std::shared_ptr<const CompileSpans> compile;  // null: it waited for none
  std::vector<v1::Span> job;                    // what the job has said
};

// Every function may be called from several threads.
class RequestTraces {
 public:
  // At most `per_program` of one program, the latest and with them the last one that compiled it,
  // and about `most_bytes` in all: of more, those of the program that was not asked for longest go.
  explicit RequestTraces(size_t most_bytes = 8 << 20, size_t per_program = 8)
      : most_bytes_(most_bytes), per_program_(per_program) {}

  void Add(SeenRequest request);
  // Keeps what a job says, of requests that are kept and of which it has said nothing yet; how many
  // these are. InvalidArgument: CheckPut's, or another process made the request; then nothing is.
  absl::StatusOr<uint32_t> Put(const v1::PutSpansRequest& request);
  // FailedPrecondition: several programs begin with the prefix.
  absl::Status Get(const v1::GetTracesRequest& request, v1::Traces* reply) const;

  size_t bytes() const;

 private:
  struct Program {
    std::string key;
    std::deque<std::shared_ptr<const SeenRequest>> requests;  // the latest last
  };
  using Programs = std::list<Program>;

  static size_t BytesOf(const SeenRequest& request);
  // In no order. FailedPrecondition: as of Get.
  absl::StatusOr<std::vector<std::shared_ptr<const SeenRequest>>> Wanted(
      const v1::GetTracesRequest& request) const;
  // Null: it is not kept.
  std::shared_ptr<const SeenRequest>* Find(const v1::JobSpans& said)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TrimProgram(Program& program) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_bytes_, per_program_;
  mutable absl::Mutex mutex_;
  Programs programs_ ABSL_GUARDED_BY(mutex_);  // the one that was asked for last first
  std::unordered_map<std::string, Programs::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_TRACES_REQUEST_TRACES_H_
