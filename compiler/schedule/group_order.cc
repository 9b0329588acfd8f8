// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/group_order.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>

#include "base/check.h"

namespace tensord::compiler {
namespace {

// Whether another group lies between two is asked of so many groups before the answer is yes. Where
// that takes more, the two are far apart, and to fuse them would move much of the program.
constexpr int kMostVisits = 1024;

}  // namespace

GroupOrder::GroupOrder(const std::vector<OperationSet>& predecessors)
    : groups_(predecessors.size()) {
  const int count = static_cast<int>(predecessors.size());
  for (int i = 0; i < count; ++i) {
    groups_[i].predecessors.assign(predecessors[i].begin(), predecessors[i].end());
    groups_[i].latest = i;
    for (int p : predecessors[i]) groups_[p].successors.push_back(i);
    group_of_.push_back(i);
  }
}

bool GroupOrder::WouldCycle(int a, int b) {
  ++search_;
  // What runs before one of them and has been visited cannot run behind it.
  int visits = 0;
  const bool cycles = LeadsBack(b, a, &visits) || LeadsBack(a, b, &visits);
  visits_ += visits;
  return cycles;
}

bool GroupOrder::LeadsBack(int from, int to, int* visits) {
  // Neither is before a group all of whose predecessors, and theirs, come earlier in the program.
  const int first = std::min(from, to);
  std::vector<int> stack;
  bool found = false;
  const auto push = [&](int p, int behind) {
    if (p == to) found |= behind != from;
    if (p == to || p == from) return;
    Group& group = groups_[p];
    if (group.latest < first || group.search == search_) return;
    group.search = search_;
    stack.push_back(p);
  };
  // The earliest come to lie on top of the stack: a path mostly leads through them.
  const auto push_predecessors = [&](int g) {
    const Group& group = groups_[g];
    for (auto op = group.predecessors.rbegin(); op != group.predecessors.rend(); ++op) {
      push(group_of_[*op], g);
    }
    if (group.known_before >= 0) push(group_of_[group.known_before], g);
  };
  push_predecessors(from);
  while (!stack.empty() && !found) {
    const int g = stack.back();
    stack.pop_back();
    if (++*visits > kMostVisits) return true;
    push_predecessors(g);
  }
  if (found) groups_[from].known_before = to;
  return found;
}

void GroupOrder::Merge(int a, int b, const std::vector<int>& operations_of_b) {
  Group &x = groups_[a], &y = groups_[b];
  for (int op : operations_of_b) group_of_[op] = a;
  x.predecessors = Union(x.predecessors, y.predecessors, a);
  x.successors = Union(x.successors, y.successors, a);
  x.latest = std::max(x.latest, y.latest);
  y = {};
  RaiseLatest(a);
}

std::vector<int> GroupOrder::Union(const std::vector<int>& a, const std::vector<int>& b,
                                   int merged) const {
  std::vector<int> both;
  both.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  std::erase_if(both, [&](int op) { return group_of_[op] == merged; });
  return both;
}

void GroupOrder::RaiseLatest(int changed) {
  std::vector<int> stack = {changed};
  while (!stack.empty()) {
    const Group& group = groups_[stack.back()];
    stack.pop_back();
    for (int op : group.successors) {
      Group& behind = groups_[group_of_[op]];
      if (behind.latest >= group.latest) continue;
      behind.latest = group.latest;
      ++visits_;
      stack.push_back(group_of_[op]);
    }
  }
}

std::vector<int> GroupOrder::Sorted() const {
  const int count = static_cast<int>(groups_.size());
  std::vector<std::vector<int>> successors(count);
  std::vector<size_t> waits_for(count, 0);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  size_t groups = 0;
  for (int g = 0; g < count; ++g) {
    if (group_of_[g] != g) continue;
    ++groups;
    std::vector<int> before;
    for (int op : groups_[g].predecessors) before.push_back(group_of_[op]);
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    waits_for[g] = before.size();
    for (int p : before) successors[p].push_back(g);
    if (before.empty()) ready.push(g);
  }
  std::vector<int> sorted;
  while (!ready.empty()) {
    const int g = ready.top();
    ready.pop();
    sorted.push_back(g);
    for (int s : successors[g]) {
      if (--waits_for[s] == 0) ready.push(s);
    }
  }
  TENSORD_CHECK(sorted.size() == groups, "fusion made a cycle");
  return sorted;
}

}  // namespace tensord::compiler
