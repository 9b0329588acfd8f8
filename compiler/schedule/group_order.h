// SPDX-License-Identifier: Apache-2.0
// Which fusion groups must run before which others.
#ifndef TENSORD_COMPILER_SCHEDULE_GROUP_ORDER_H_
#define TENSORD_COMPILER_SCHEDULE_GROUP_ORDER_H_

#include <cstdint>
#include <vector>

#include "compiler/schedule/access.h"

namespace tensord::compiler {

// A group's number is that of its first operation. Apart from the groups themselves, for the search
// of WouldCycle goes through many of them: what it reads of each is small.
class GroupOrder {
 public:
  // Each operation is a group. `predecessors`: of the program's operations.
  explicit GroupOrder(const std::vector<OperationSet>& predecessors);

  // True when some other group must run after one of the two and before the other, and when that
  // would take too long to tell.
  bool WouldCycle(int a, int b);

  // Group a takes in group b, all of whose operations are given. Requires: a < b, and they make no
  // cycle.
  void Merge(int a, int b, const std::vector<int>& operations_of_b);

  // All groups, each behind those that must run before it; ties by program order.
  std::vector<int> Sorted() const;

  // Groups that were visited so far, to know whether one lies between two.
  int64_t visits() const { return visits_; }

 private:
  struct Group {
    std::vector<int> predecessors, successors;  // operations of other groups, ascending
    int latest;             // operation of this group and of all that must run before it
    int known_before = -1;  // an operation that must run before it, as the last path has shown
    int search = 0;         // the last one that came by
  };

  // True when a path leads back from one group to the other through a third. Counts its visits.
  bool LeadsBack(int from, int to, int* visits);
  // Operations of two groups, those of group `merged` left out.
  std::vector<int> Union(const std::vector<int>& a, const std::vector<int>& b, int merged) const;
  // What follows from a group's `latest` for those that run behind it.
  void RaiseLatest(int changed);

  std::vector<Group> groups_;
  std::vector<int> group_of_;  // by operation
  int search_ = 0;
  int64_t visits_ = 0;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_GROUP_ORDER_H_
