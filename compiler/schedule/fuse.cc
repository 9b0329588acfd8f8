#include "compiler/schedule/fuse.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "compiler/schedule/access.h"

namespace tensord::compiler {
namespace {

// A nest with more operations than this compiles slowly and spills registers.
constexpr size_t kMostOps = 48;
// Groups that only read the same and are further apart than this in program order stay apart, for
// the sake of memory. Where one reads what the other writes, fusing saves the memory in between.
constexpr int kMostDistance = 64;
// Reading this little twice costs less than a constraint on the schedule.
constexpr int64_t kSmallBytes = 4096;

struct Candidate {
  int64_t saved;  // bytes not read or not written
  int distance;
  int a, b;  // groups, a before b in program order
};

class Fuser {
 public:
  Fuser(const Program& program, const DeviceTraits& device)
      : program_(program), device_(device), op_predecessors_(Predecessors(program)) {
    const int count = static_cast<int>(program.operations.size());
    for (int i = 0; i < count; ++i) {
      accesses_.push_back(AccessesOf(program.operations[i]));
      State state{.ops = {i}, .accesses = accesses_.back(), .predecessors = op_predecessors_[i]};
      const auto* op = std::get_if<LoopOp>(&program.operations[i]);
      state.is_extern = op == nullptr;
      if (op != nullptr) {
        state.shape = ShapeOf(*op, device);
        auto nest = BuildNest(program, state.ops, state.shape, device);
        TENSORD_CHECK(nest.ok(), op->origin + ": " + std::string(nest.status().message()));
        state.nest = *std::move(nest);
      }
      groups_.push_back(std::move(state));
      group_of_.push_back(i);
    }
  }

  FusionResult Run() {
    while (Round()) {
    }
    return Finish();
  }

 private:
  struct State {
    std::vector<int> ops;
    bool is_extern = false;
    bool dead = false;
    GroupShape shape;
    Nest nest;
    Accesses accesses;
    std::set<int> predecessors;  // operations (not groups), outside this group
  };

  // Tries all candidates once, best first; true when something was fused.
  bool Round() {
    std::vector<Candidate> candidates = Candidates();
    bool fused = false;
    std::set<int> touched;
    for (const Candidate& c : candidates) {
      if (groups_[c.a].dead || groups_[c.b].dead) continue;
      // Scores of groups that changed in this round are stale; they come again in the next.
      if (touched.count(c.a) != 0 || touched.count(c.b) != 0) continue;
      if (rejected_.count({c.a, c.b}) != 0) continue;
      const absl::Status status = TryFuse(c.a, c.b);
      if (status.ok()) {
        touched.insert(c.a);
        fused = true;
        // A group that grew, and pairs that something lay between, deserve another try.
        std::erase_if(rejected_, [&](const auto& pair) {
          return pair.first == c.a || pair.second == c.a || pair.first == c.b || pair.second == c.b;
        });
      } else {
        rejected_.insert({c.a, c.b});
        notes_.push_back(absl::StrCat(OriginOf(c.a), " + ", OriginOf(c.b), ": ", status.message(),
                                      " (", c.saved, " bytes)"));
      }
    }
    return fused;
  }

  std::vector<Candidate> Candidates() const {
    std::map<BufferId, std::vector<int>> users;
    for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
      const State& state = groups_[g];
      if (state.dead || state.is_extern) continue;
      std::set<BufferId> all = state.accesses.reads;
      all.insert(state.accesses.writes.begin(), state.accesses.writes.end());
      for (BufferId id : all) users[id].push_back(g);
    }
    std::map<std::pair<int, int>, int64_t> saved;
    for (const auto& [id, groups] : users) {
      const int64_t bytes = BufferBytes(program_.buffers[id]);
      std::vector<bool> writes;
      for (int g : groups) writes.push_back(groups_[g].accesses.writes.count(id) != 0);
      for (size_t i = 0; i < groups.size(); ++i) {
        for (size_t j = i + 1; j < groups.size(); ++j) {
          const int a = groups[i], b = groups[j];
          const bool flows = writes[i] || writes[j];
          const bool near = groups_[b].ops.front() - groups_[a].ops.back() <= kMostDistance;
          if (!flows && (bytes < kSmallBytes || !near)) continue;
          saved[{a, b}] += flows ? 2 * bytes + 1 : bytes;
        }
      }
    }
    std::vector<Candidate> candidates;
    for (const auto& [pair, bytes] : saved) {
      candidates.push_back({bytes,
                            groups_[pair.second].ops.front() - groups_[pair.first].ops.front(),
                            pair.first, pair.second});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& x, const Candidate& y) {
                       return x.saved != y.saved ? x.saved > y.saved : x.distance < y.distance;
                     });
    return candidates;
  }

  absl::Status TryFuse(int a, int b) {
    State &x = groups_[a], &y = groups_[b];
    if (x.ops.size() + y.ops.size() > kMostOps) {
      return absl::FailedPreconditionError("the group would get too large");
    }
    auto shape = CommonShape(x.shape, y.shape, device_);
    if (!shape.ok()) return shape.status();
    if (WouldCycle(a, b)) return absl::FailedPreconditionError("another kernel lies between them");
    std::vector<int> ops = x.ops;
    ops.insert(ops.end(), y.ops.begin(), y.ops.end());
    std::sort(ops.begin(), ops.end());
    auto nest = BuildNest(program_, ops, *shape, device_);
    if (!nest.ok()) return nest.status();
    x.ops = std::move(ops);
    x.shape = *shape;
    x.nest = *std::move(nest);
    x.accesses.reads.insert(y.accesses.reads.begin(), y.accesses.reads.end());
    x.accesses.writes.insert(y.accesses.writes.begin(), y.accesses.writes.end());
    x.predecessors.insert(y.predecessors.begin(), y.predecessors.end());
    for (int op : y.ops) group_of_[op] = a;
    for (int op : x.ops) x.predecessors.erase(op);
    y = State{.dead = true};
    return absl::OkStatus();
  }

  // True when some other group must run after one of the two and before the other.
  bool WouldCycle(int a, int b) const {
    std::set<int> seen;
    std::vector<int> stack;
    const auto push_predecessors = [&](int g) {
      for (int op : groups_[g].predecessors) {
        const int p = group_of_[op];
        if (p != a && p != b && seen.insert(p).second) stack.push_back(p);
      }
    };
    push_predecessors(a);
    push_predecessors(b);
    // Any path out of {a, b} that comes back to it through another group is a cycle.
    while (!stack.empty()) {
      const int g = stack.back();
      stack.pop_back();
      for (int op : groups_[g].predecessors) {
        const int p = group_of_[op];
        if (p == a || p == b) return true;
        if (seen.insert(p).second) stack.push_back(p);
      }
    }
    return false;
  }

  std::string OriginOf(int g) const {
    const auto& op = std::get<LoopOp>(program_.operations[groups_[g].ops.front()]);
    return groups_[g].ops.size() == 1
               ? op.origin
               : absl::StrCat(op.origin, " and ", groups_[g].ops.size() - 1, " more");
  }

  // Topological order, ties by program order.
  FusionResult Finish() {
    FusionResult result;
    std::vector<bool> done(groups_.size(), false);
    std::set<std::pair<int, int>> ready;  // first op, group
    std::map<int, std::set<int>> successors;
    std::vector<int> waiting(groups_.size(), 0);
    for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
      if (groups_[g].dead) continue;
      std::set<int> before;
      for (int op : groups_[g].predecessors) before.insert(group_of_[op]);
      before.erase(g);
      waiting[g] = static_cast<int>(before.size());
      for (int p : before) successors[p].insert(g);
      if (before.empty()) ready.insert({groups_[g].ops.front(), g});
    }
    while (!ready.empty()) {
      const int g = ready.begin()->second;
      ready.erase(ready.begin());
      State& state = groups_[g];
      result.groups.push_back({std::move(state.ops), state.is_extern, std::move(state.nest)});
      for (int s : successors[g]) {
        if (--waiting[s] == 0) ready.insert({groups_[s].ops.front(), s});
      }
    }
    size_t alive = 0;
    for (const State& state : groups_) alive += state.dead ? 0 : 1;
    TENSORD_CHECK(result.groups.size() == alive, "fusion made a cycle");
    result.notes = std::move(notes_);
    return result;
  }

  const Program& program_;
  const DeviceTraits& device_;
  std::vector<std::set<int>> op_predecessors_;
  std::vector<Accesses> accesses_;
  std::vector<State> groups_;
  std::vector<int> group_of_;
  std::set<std::pair<int, int>> rejected_;
  std::vector<std::string> notes_;
};

}  // namespace

FusionResult Fuse(const Program& program, const DeviceTraits& device) {
  return Fuser(program, device).Run();
}

}  // namespace tensord::compiler
