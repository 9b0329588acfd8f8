// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/fuse.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "compiler/schedule/access.h"
#include "compiler/schedule/group_order.h"

namespace tensord::compiler {
namespace {

// A nest with more operations than this compiles slowly and spills registers.
constexpr size_t kMostOps = 48;
// Groups that only read the same and are further apart than this in program order stay apart, for
// the sake of memory. Where one reads what the other writes, fusing saves the memory in between.
constexpr int kMostDistance = 64;
// Groups that span more of the program than this are looked for apart.
constexpr int kWideSpan = 256;
// Reading this little twice costs less than a constraint on the schedule.
constexpr int64_t kSmallBytes = 4096;
// A group is tried with so many of those that read or write a buffer, on either side of it in
// program order. The nearest are most likely to fit, and of a concatenation of thousands each part
// would otherwise be tried with every other.
constexpr size_t kMostPartners = 32;
// So many of those that read what a group reads are tried, where it spans much of the program.
constexpr size_t kMostNear = kMostDistance + kWideSpan;

struct Candidate {
  int64_t saved;  // bytes not read or not written
  int distance;
  int a, b;  // groups, a before b in program order
};

class Fuser {
 public:
  Fuser(const Program& program, const AccessIndex& accesses,
        const std::vector<OperationSet>& predecessors, const DeviceTraits& device)
      : program_(program),
        index_(accesses),
        device_(device),
        order_(predecessors),
        users_(program.buffers.size()) {
    const int count = static_cast<int>(program.operations.size());
    for (int i = 0; i < count; ++i) {
      State state{.ops = {i}, .accesses = index_.Of(i)};
      const auto* op = std::get_if<LoopOp>(&program.operations[i]);
      state.is_extern = op == nullptr;
      if (op != nullptr) {
        state.shape = ShapeOf(*op, device);
        auto nest = BuildNest(program, index_, state.ops, state.shape, device);
        TENSORD_CHECK(nest.ok(), op->origin + ": " + std::string(nest.status().message()));
        state.nest = *std::move(nest);
        for (BufferId id : state.accesses.reads) users_[id].all.insert(i);
        for (BufferId id : state.accesses.writes) {
          users_[id].all.insert(i);
          users_[id].writers.insert(i);
        }
        changed_.push_back(i);
      }
      groups_.push_back(std::move(state));
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
    int merged_into = -1;  // of a dead one
    GroupShape shape;
    Nest nest;
    Accesses accesses;
  };

  // Groups that touch a buffer; a group's number is that of its first operation.
  struct Users {
    absl::btree_set<int> all, writers;
    absl::btree_set<int> wide;  // those of `all` whose operations are far apart
  };

  // Tries all candidates once, best first; true when something was fused.
  bool Round() {
    std::vector<Candidate> candidates = Candidates();
    changed_.clear();
    absl::btree_set<int> touched;
    for (const Candidate& c : candidates) {
      if (groups_[c.a].dead || groups_[c.b].dead) continue;
      // Scores of groups that changed in this round are stale; they come again in the next.
      if (touched.count(c.a) != 0 || touched.count(c.b) != 0) continue;
      const absl::Status status = TryFuse(c.a, c.b);
      if (status.ok()) {
        touched.insert(c.a);
      } else {
        notes_.push_back(absl::StrCat(OriginOf(c.a), " + ", OriginOf(c.b), ": ", status.message(),
                                      " (", c.saved, " bytes)"));
        rejections_.push_back({c.a, c.b, std::string(status.message())});
      }
    }
    changed_.assign(touched.begin(), touched.end());
    return !changed_.empty();
  }

  // Pairs of groups that share memory, of which one has changed: the others were rejected before.
  std::vector<Candidate> Candidates() {
    std::vector<std::pair<int, int>> pairs;
    for (int g : changed_) {
      const State& state = groups_[g];
      const auto add = [&](int other) {
        if (other != g) pairs.emplace_back(std::min(g, other), std::max(g, other));
      };
      for (BufferId id : state.accesses.writes) Nearest(users_[id].all, g, add);
      for (BufferId id : state.accesses.reads) {
        Nearest(users_[id].writers, g, add);
        if (state.accesses.writes.count(id) == 0) NearReaders(id, g, add);
      }
    }
    // They come in ordered runs.
    std::stable_sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    pairs_ += static_cast<int64_t>(pairs.size());
    std::vector<Candidate> candidates;
    for (const auto& [a, b] : pairs) {
      const int64_t saved = SavedBytes(groups_[a], groups_[b]);
      if (saved == 0) continue;
      candidates.push_back({saved, b - a, a, b});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& x, const Candidate& y) {
                       return x.saved != y.saved ? x.saved > y.saved : x.distance < y.distance;
                     });
    return candidates;
  }

  // The nearest groups of a set on either side of `g`.
  template <typename Add>
  void Nearest(const absl::btree_set<int>& groups, int g, const Add& add) const {
    auto it = groups.lower_bound(g);
    size_t left = kMostPartners;
    for (auto down = it; down != groups.begin() && left > 0; --left) add(*--down);
    left = kMostPartners;
    for (; it != groups.end() && left > 0; ++it, --left) add(*it);
  }

  // Groups that touch a buffer that is worth it, and may be near enough to share reading it.
  template <typename Add>
  void NearReaders(BufferId id, int g, const Add& add) const {
    if (BufferBytes(program_.buffers[id]) < kSmallBytes) return;
    const Users& users = users_[id];
    const auto add_before = [&](int other) {
      if (g - groups_[other].ops.back() <= kMostDistance) add(other);
    };
    const auto behind = users.all.upper_bound(g);
    for (auto it = behind; it != users.all.begin();) {
      if (*--it < g - kMostDistance - kWideSpan) break;
      add_before(*it);
    }
    size_t left = kMostPartners;
    for (auto it = users.wide.lower_bound(g); it != users.wide.begin() && left > 0; --left) {
      add_before(*--it);
    }
    const int reach = groups_[g].ops.back() + kMostDistance;
    left = kMostNear;
    for (auto it = behind; it != users.all.end() && *it <= reach && left > 0; ++it, --left) {
      add(*it);
    }
  }

  // What is not read or not written when the two are one; a is before b.
  int64_t SavedBytes(const State& a, const State& b) const {
    const bool near = b.ops.front() - a.ops.back() <= kMostDistance;
    int64_t saved = 0;
    const auto add = [&](BufferId id, bool flows) {
      const int64_t bytes = BufferBytes(program_.buffers[id]);
      if (flows || (bytes >= kSmallBytes && near)) saved += flows ? 2 * bytes + 1 : bytes;
    };
    for (BufferId id : a.accesses.writes) {
      if (b.accesses.writes.count(id) != 0 || b.accesses.reads.count(id) != 0) add(id, true);
    }
    for (BufferId id : a.accesses.reads) {
      if (a.accesses.writes.count(id) != 0) continue;
      if (b.accesses.writes.count(id) != 0) {
        add(id, true);
      } else if (b.accesses.reads.count(id) != 0) {
        add(id, false);
      }
    }
    return saved;
  }

  absl::Status TryFuse(int a, int b) {
    State &x = groups_[a], &y = groups_[b];
    if (x.ops.size() + y.ops.size() > kMostOps) {
      return absl::FailedPreconditionError("the group would get too large");
    }
    auto shape = CommonShape(x.shape, y.shape, device_);
    if (!shape.ok()) return shape.status();
    if (order_.WouldCycle(a, b))
      return absl::FailedPreconditionError("another kernel lies between them");
    std::vector<int> ops = x.ops;
    ops.insert(ops.end(), y.ops.begin(), y.ops.end());
    std::sort(ops.begin(), ops.end());
    auto nest = BuildNest(program_, index_, ops, *shape, device_);
    if (!nest.ok()) return nest.status();
    const size_t touched = TouchedByBoth(x.accesses, y.accesses) - nest->local.size();
    if (touched > device_.most_words - kWordsOfSizes) {
      return absl::FailedPreconditionError("the kernel would get too many arguments");
    }
    Replace(b, a);
    x.ops = std::move(ops);
    x.shape = *shape;
    x.nest = *std::move(nest);
    x.accesses.reads.insert(y.accesses.reads.begin(), y.accesses.reads.end());
    x.accesses.writes.insert(y.accesses.writes.begin(), y.accesses.writes.end());
    order_.Merge(a, b, y.ops);
    y = State{.dead = true, .merged_into = a};
    if (x.ops.back() - x.ops.front() > kWideSpan) {
      for (BufferId id : x.accesses.reads) users_[id].wide.insert(a);
      for (BufferId id : x.accesses.writes) users_[id].wide.insert(a);
    }
    return absl::OkStatus();
  }

  static size_t TouchedByBoth(const Accesses& a, const Accesses& b) {
    absl::btree_set<BufferId> all = a.reads;
    for (const auto* more : {&a.writes, &b.reads, &b.writes})
      all.insert(more->begin(), more->end());
    return all.size();
  }

  // Who touches buffers, when group `with` takes in group `old`.
  void Replace(int old, int with) {
    for (const auto* ids : {&groups_[old].accesses.reads, &groups_[old].accesses.writes}) {
      for (BufferId id : *ids) {
        users_[id].all.erase(old);
        users_[id].all.insert(with);
        users_[id].wide.erase(old);
      }
    }
    for (BufferId id : groups_[old].accesses.writes) {
      users_[id].writers.erase(old);
      users_[id].writers.insert(with);
    }
  }

  std::string OriginOf(int g) const {
    const auto& op = std::get<LoopOp>(program_.operations[groups_[g].ops.front()]);
    return groups_[g].ops.size() == 1
               ? op.origin
               : absl::StrCat(op.origin, " and ", groups_[g].ops.size() - 1, " more");
  }

  // The group that has taken it in, or itself.
  int Living(int g) const {
    while (groups_[g].dead) g = groups_[g].merged_into;
    return g;
  }

  // Of each pair that is apart in the end, the last; `place`: of a group in the result.
  std::vector<Rejection> Rejections(const std::map<int, int>& place) {
    std::map<std::pair<int, int>, std::string> last;
    for (Rejection& rejection : rejections_) {
      const int a = place.at(Living(rejection.a)), b = place.at(Living(rejection.b));
      if (a != b) last[{std::min(a, b), std::max(a, b)}] = std::move(rejection.why);
    }
    std::vector<Rejection> rejections;
    for (auto& [pair, why] : last) rejections.push_back({pair.first, pair.second, std::move(why)});
    return rejections;
  }

  FusionResult Finish() {
    FusionResult result;
    std::map<int, int> place;
    for (int g : order_.Sorted()) {
      State& state = groups_[g];
      place[g] = static_cast<int>(result.groups.size());
      result.groups.push_back({std::move(state.ops), state.is_extern, std::move(state.nest)});
    }
    result.notes = std::move(notes_);
    result.rejections = Rejections(place);
    result.work = {.pairs = pairs_, .visits = order_.visits()};
    return result;
  }

  const Program& program_;
  const AccessIndex& index_;
  const DeviceTraits& device_;
  GroupOrder order_;
  std::vector<State> groups_;
  std::vector<Users> users_;  // by buffer
  std::vector<int> changed_;  // groups, in the last round
  int64_t pairs_ = 0;         // of groups that were looked at
  std::vector<std::string> notes_;
  std::vector<Rejection> rejections_;  // of groups by number, as they were tried
};

}  // namespace

FusionResult Fuse(const Program& program, const AccessIndex& accesses,
                  const std::vector<OperationSet>& predecessors, const DeviceTraits& device) {
  return Fuser(program, accesses, predecessors, device).Run();
}

}  // namespace tensord::compiler
