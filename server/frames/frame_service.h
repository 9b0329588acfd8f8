// SPDX-License-Identifier: Apache-2.0
// Frames without RPC: what FindFrames, PutFrame and the others of service.proto promise.
//
//   found  ─ frames that the job does not know ─────────────────────────────────▶ frames
//   none   ─ does another process capture? ─ no ─ the fleet has some ───────────▶ frames
//                                               ─ it has none ──────────────────▶ capture
//                                            yes: waits ─ it put one ───────────▶ frames
//                                                        ─ it ended, the first ─▶ capture
//                                                        ─ long enough ─────────▶ nothing
#ifndef TENSORD_SERVER_FRAMES_FRAME_SERVICE_H_
#define TENSORD_SERVER_FRAMES_FRAME_SERVICE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/threads.h"
#include "server/compile/own_steps.h"
#include "server/frames/captures.h"
#include "server/frames/misses.h"
#include "server/frames/shared_frames.h"
#include "server/jobs/job_lists.h"
#include "server/jobs/job_processes.h"
#include "server/store/store.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::server {

struct Metrics;

struct FrameOptions {
  absl::Duration lease = absl::Seconds(30);  // of a capture
  uint64_t most_bytes = 63 << 20;            // of a frame
  uint64_t max_waiting = 512;              // requests that wait for others' captures, and captures
  uint64_t most_waiting_bytes = 64 << 20;  // of frames that are to be stored; one always is
};

// Where a request comes from: numbers of processes mean something here, or nothing.
enum class Origin { kThisHost, kNetwork };

class FrameService {
 public:
  // `done` is called exactly once, on this thread or another.
  using Done = std::function<void(absl::Status)>;

  // All outlive the service; `fleet`, `jobs` and `processes` are null for none.
  FrameService(FrameOptions options, store::Store* store, Metrics* metrics,
               fleet::Fleet* fleet = nullptr, JobLists* jobs = nullptr,
               JobProcesses* processes = nullptr);
  // Stop() first if requests may still wait.
  ~FrameService();

  // A request for frames. `reply` must live until `done`; what does not have to wait for another's
  // capture is answered before this returns. steps: where what it takes from the fleet is a step of
  // the caller's.
  struct Search;
  using SearchPtr = std::shared_ptr<Search>;
  SearchPtr Find(v1::FindFramesRequest request, v1::FindFramesReply* reply, Done done,
                 Origin origin = Origin::kThisHost, OwnSteps* steps = nullptr);
  // Answers one that waits, if it does, with Cancelled: nobody is there any more to capture.
  void Cancel(const SearchPtr& search);

  // `request`: a serialised PutFrameRequest. Stored by a thread for that, in the order of coming.
  // ResourceExhausted: it is too large, or too much waits to be stored.
  void Put(std::string request, v1::PutFrameReply* reply, Done done);
  void EndCapture(const v1::EndCaptureRequest& request);
  absl::Status Use(const v1::UseFramesRequest& request);
  void ListMisses(const v1::ListMissesRequest& request, v1::ListMissesReply* reply);
  absl::Status List(const v1::ListFramesRequest& request, v1::ListFramesReply* reply);
  absl::Status Get(const v1::GetFrameRequest& request, v1::StoredFrame* reply);
  void FillStats(v1::Stats* stats);

  // Nobody waits from here on: who does gets Unavailable, and who asks what there is.
  void Stop();

 private:
  // On putting_.
  absl::Status PutNow(const std::string& bytes, v1::PutFrameReply* reply, std::string* place,
                      uint64_t* capture);
  absl::Status Keep(const v1::PutFrameRequest& request, v1::PutFrameReply* reply);
  // Answers who put it. `place`: where it lies; empty: nowhere. `capture`: it ends.
  void EndPut(const absl::Status& status, const std::string& place, uint64_t capture,
              const v1::PutFrameReply* reply, const Done& done);
  // Of a frame that is to be stored; false: there is no room.
  bool TakePutRoom(size_t bytes);
  void GivePutRoom(size_t bytes);
  // Fills in what the job does not know; false: no frame of the code.
  bool LookUp(Search& search);
  // The same with what was found.
  bool Give(Search& search, const std::vector<store::FoundFrame>& frames);
  void AddFollowing(Search& search);
  // Answers who is to capture, unless the fleet has what it seeks.
  void AskFleet(const SearchPtr& search, uint64_t capture);
  void AnswerOfFleet(const SearchPtr& search, uint64_t capture, bool found);
  // Takes it off asking_; false: somebody else has.
  bool TakeAsking(const SearchPtr& search);
  void BeginTask();
  void EndTask();
  void Answer(const SearchPtr& search, uint64_t capture, const absl::Status& status);
  // Answers those who wait at a place and find what they do not know, and passes the capture on.
  void Settle(const std::string& place);
  void AnswerDue();  // a thread's
  void CountUnrecorded(const std::string& reason);
  // A process of the job used a stored frame.
  void NoteUse(const std::string& job, const std::string& key);

  const FrameOptions options_;
  store::Store* const store_;
  Metrics* const metrics_;
  SharedFrames shared_;
  JobLists* const jobs_;
  JobProcesses* const processes_;
  Captures<SearchPtr> captures_;
  Misses misses_;
  absl::Mutex tasks_mutex_;
  int tasks_ ABSL_GUARDED_BY(tasks_mutex_) = 0;               // of putting_ and of the fleet
  uint64_t put_bytes_ ABSL_GUARDED_BY(tasks_mutex_) = 0;      // of frames that wait for putting_
  std::set<SearchPtr> asking_ ABSL_GUARDED_BY(tasks_mutex_);  // the fleet
  absl::Mutex unrecorded_mutex_;
  std::map<std::string, uint64_t> unrecorded_ ABSL_GUARDED_BY(unrecorded_mutex_);  // by reason
  Threads putting_;  // one: a disk that hangs is to keep no thread of those that compile
  std::thread due_;  // runs AnswerDue
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_FRAMES_FRAME_SERVICE_H_
