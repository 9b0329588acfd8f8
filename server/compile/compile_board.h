// SPDX-License-Identifier: Apache-2.0
// How far the compiles are that somebody waits for, for people who watch. Times are of SteadyNow().
#ifndef TENSORD_SERVER_COMPILE_COMPILE_BOARD_H_
#define TENSORD_SERVER_COMPILE_COMPILE_BOARD_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "server/compile/own_steps.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::server {

// Thread-safe. A program is on the board as long as a request for it waits; what is said of a
// program that nobody waits for is dropped.
class CompileBoard {
 public:
  // A request waits for the program `key`. `id`: the request's own number.
  void Join(const std::string& key, uint64_t id, const v1::Caller& caller, const std::string& label,
            int nodes, absl::Time now = SteadyNow());
  // It has its answer. A request that did not join is no error.
  void Leave(const std::string& key, uint64_t id);

  // COMPILING: the program's kernels are not known, or not any more.
  void SetStage(const std::string& key, v1::CompileProgress::Stage stage);
  // It needs so many kernels, and has these: stage KERNELS.
  void SetKernels(const std::string& key, uint32_t ready, uint32_t kernels);

  // What the daemon does by itself for a program, or for a process before there is one.
  OwnSteps& steps() { return steps_; }

  // Those that match the request, in the order of their first requests, and how long nothing moves.
  v1::CompilesUpdate Read(const v1::WatchCompilesRequest& request,
                          absl::Time now = SteadyNow()) const;

 private:
  struct Compile {
    std::string label;
    int nodes = 0;
    absl::Time since;
    v1::CompileProgress::Stage stage = v1::CompileProgress::WAITING;
    uint32_t kernels = 0, kernels_ready = 0;
    std::map<uint64_t, v1::Caller> waiting;  // by request
  };
  // How long nothing has moved of a program; nothing: it waits for others.
  std::optional<absl::Duration> SilenceOf(const std::string& key, const Compile& compile,
                                          absl::Time now) const;

  OwnSteps steps_;
  mutable absl::Mutex mutex_;  // before that of steps_
  std::unordered_map<std::string, Compile> compiles_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_COMPILE_BOARD_H_
