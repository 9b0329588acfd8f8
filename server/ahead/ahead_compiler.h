// SPDX-License-Identifier: Apache-2.0
// Compiles graphs before a job asks for them: by the daemon's own service, so that what lands in
// its store, and in its fleet, has the key under which the job's request looks.
#ifndef TENSORD_SERVER_AHEAD_AHEAD_COMPILER_H_
#define TENSORD_SERVER_AHEAD_AHEAD_COMPILER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/ahead/graphs.h"
#include "server/compile/compile_service.h"

namespace tensord::server {

enum class AheadOutcome : uint8_t { kMade, kHit, kFailed, kSkipped };
// "made", "hit", "failed", "skipped".
const char* NameOf(AheadOutcome outcome);

// What became of one graph for one target.
struct AheadResult {
  std::string name, label;  // the graph's
  std::string target;       // TargetName; empty: none fits
  AheadOutcome outcome = AheadOutcome::kFailed;
  std::string key;            // 32 bytes; empty where there is no program
  uint32_t kernels = 0;       // launches in the plan
  uint32_t kernels_made = 0;  // units that the JIT made
  // Of what failed or was skipped; of what was made, the kernels that library calls replace.
  std::string why;
};

struct AheadOptions {
  // Each graph is compiled for those of its kind, CPU or GPU.
  std::vector<v1::Target> targets;
  bool own_first = false;  // but where it came with a target, for that alone
  std::string job;         // to whose list the programs are added; empty: none
  size_t most_at_once = 1;
};

class AheadCompiler {
 public:
  // The service outlives it. `report` is called by Compile and Finish, in the order in which graphs
  // came.
  AheadCompiler(CompileService* service, AheadOptions options,
                std::function<void(const AheadResult&)> report);
  // Waits for what is under way.
  ~AheadCompiler();

  // Waits while so many compile already. A graph that came before with the same options is left
  // out.
  void Compile(const AheadGraph& graph);
  // One that could not be read, for this reason.
  void Fail(const std::string& name, const std::string& why);
  // Waits for all of them.
  void Finish();
  // How many came to that.
  uint64_t Count(AheadOutcome outcome) const { return counts_[static_cast<size_t>(outcome)]; }

 private:
  struct Pending;

  void Start(const AheadGraph& graph, const v1::Target& target);
  // Reports it in its turn.
  void Settle(AheadResult result);
  void Report(const AheadResult& result);
  void SettleFirst();

  CompileService& service_;
  const AheadOptions options_;
  const std::function<void(const AheadResult&)> report_;
  std::set<std::string> seen_;  // digests of requests
  std::deque<std::unique_ptr<Pending>> pending_;
  uint64_t counts_[4] = {};
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_AHEAD_AHEAD_COMPILER_H_
