// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/order_calls.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <variant>

#include "compiler/schedule/access.h"
#include "compiler/schedule/live_bytes.h"

namespace tensord::compiler {
namespace {

// A call moves over so many others at most: what is further away has other operands.
constexpr int kMostPlaces = 8;

class Orderer {
 public:
  Orderer(const Program& program, const std::vector<bool>& released, const Schedule& schedule)
      : index_(program),
        predecessors_(Predecessors(program, index_)),
        order_(schedule.steps.size()),
        calls_(schedule.steps.size(), kNoCall),
        moves_(schedule.steps.size(), false),
        last_(program.buffers.size(), -1),
        bytes_(program.buffers.size(), 0),
        goes_(program.buffers.size(), false) {
    std::iota(order_.begin(), order_.end(), 0);
    for (size_t step = 0; step < schedule.steps.size(); ++step) {
      const int* op = std::get_if<int>(&schedule.steps[step].work);
      if (op == nullptr) continue;
      calls_[step] = *op;
      moves_[step] = !IsOfCollective(std::get<ExternOp>(program.operations[*op]));
    }
    for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id) {
      bytes_[id] = BufferBytes(program.buffers[id]);
      goes_[id] = IsReleased(program, index_, released, id);
    }
    for (size_t step = 0; step < order_.size(); ++step) {
      NoteLast(schedule, static_cast<int>(step));
    }
  }

  // The schedule's steps in their new order.
  const std::vector<int>& Run() {
    const int count = static_cast<int>(order_.size());
    for (int i = 1; i < count; ++i) {
      for (int at = i; at > 0 && i - at < kMostPlaces && IsBetterSwapped(at - 1); --at) {
        Swap(at - 1);
      }
    }
    return order_;
  }

 private:
  static constexpr int kNoCall = -1;

  // They begin early and are waited for late, whatever that takes.
  static bool IsOfCollective(const ExternOp& call) {
    return call.op.starts_with("_c10d_functional::");
  }

  void NoteLast(const Schedule& schedule, int step) {
    if (calls_[step] != kNoCall) return NoteLast(calls_[step], step);
    for (const Nest& nest : std::get<Kernel>(schedule.steps[step].work).nests) {
      for (const auto* members : {&nest.members, &nest.after}) {
        for (const NestMember& member : *members) NoteLast(member.op, step);
      }
    }
  }

  void NoteLast(int op, int step) {
    ForEachBuffer(op, [&](BufferId id) { last_[id] = std::max(last_[id], step); });
  }

  template <typename F>
  void ForEachBuffer(int op, F&& f) const {
    const Accesses& own = index_.Of(op);
    for (BufferId id : own.reads) f(id);
    for (BufferId id : own.writes) {
      if (own.reads.count(id) == 0) f(id);
    }
  }

  template <typename F>
  void ForEachBufferWithout(int op, int other, F&& f) const {
    const Accesses& others = index_.Of(other);
    ForEachBuffer(op, [&](BufferId id) {
      if (others.reads.count(id) == 0 && others.writes.count(id) == 0) f(id);
    });
  }

  // Bytes of what a call is the first to touch.
  int64_t Makes(int op) const {
    int64_t bytes = 0;
    for (BufferId id : index_.Of(op).writes) {
      if (index_.Users(id).front() == op) bytes += bytes_[id];
    }
    return bytes;
  }

  // Bytes of what goes behind the call at a place, with `other` yet to come.
  int64_t Frees(int place, int other) const {
    int64_t bytes = 0;
    ForEachBufferWithout(calls_[order_[place]], other, [&](BufferId id) {
      if (goes_[id] && last_[id] == place) bytes += bytes_[id];
    });
    return bytes;
  }

  // Whether the calls at a place and behind it take less the other way round.
  bool IsBetterSwapped(int place) const {
    if (!moves_[order_[place]] || !moves_[order_[place + 1]]) return false;
    const int first = calls_[order_[place]], second = calls_[order_[place + 1]];
    if (predecessors_[second].count(first) > 0) return false;
    const int64_t a = Makes(first), b = Makes(second);
    const int64_t now = std::max(a, a - Frees(place, second) + b);
    const int64_t swapped = std::max(b, b - Frees(place + 1, first) + a);
    return swapped < now;
  }

  void Swap(int place) {
    const int first = calls_[order_[place]], second = calls_[order_[place + 1]];
    const auto move = [&](int op, int other, int from, int to) {
      ForEachBufferWithout(op, other, [&](BufferId id) {
        if (last_[id] == from) last_[id] = to;
      });
    };
    move(first, second, place, place + 1);
    move(second, first, place + 1, place);
    std::swap(order_[place], order_[place + 1]);
  }

  const AccessIndex index_;
  const std::vector<OperationSet> predecessors_;
  std::vector<int> order_;
  std::vector<int> calls_;      // by step: the operation of the call, or kNoCall
  std::vector<bool> moves_;     // by step: it is a call that may run earlier or later
  std::vector<int> last_;       // by buffer: the place of the last step that touches it
  std::vector<int64_t> bytes_;  // by buffer
  std::vector<bool> goes_;      // by buffer: from memory, behind that step
};

}  // namespace

void OrderCalls(const Program& program, const std::vector<bool>& released, Schedule* schedule) {
  const std::vector<int> order = Orderer(program, released, *schedule).Run();
  if (std::is_sorted(order.begin(), order.end())) return;
  std::vector<int> place(order.size());
  std::vector<ScheduledStep> steps;
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<int>(i);
    steps.push_back(std::move(schedule->steps[order[i]]));
  }
  schedule->steps = std::move(steps);
  for (Rejection& rejection : schedule->rejections) {
    rejection.a = place[rejection.a];
    rejection.b = place[rejection.b];
  }
}

}  // namespace tensord::compiler
