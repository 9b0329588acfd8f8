// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/verify_schedule.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <vector>

#include "compiler/schedule/access.h"

namespace tensord::compiler {
namespace {

// Where an operation runs.
struct Slot {
  int step = -1;
  int nest = -1;    // over all steps; -1: a call
  int member = -1;  // in the order in which the nest runs
};

// The last of some operations, as far as those that follow must know: in which step and, where all
// that are in that step share a nest, which of its members.
struct Last {
  int step = -1, nest = -1, member = -1;
  bool several = false;  // nests of that step

  void Add(const Slot& slot) {
    if (slot.step < step) return;
    if (slot.step > step) {
      *this = {slot.step, slot.nest, slot.member, false};
    } else if (slot.nest != nest) {
      several = true;
    } else {
      member = std::max(member, slot.member);
    }
  }
  bool IsBefore(const Slot& slot) const {
    if (step != slot.step) return step < slot.step;
    return !several && nest == slot.nest && nest >= 0 && member < slot.member;
  }
};

class Verifier {
 public:
  Verifier(const Program& program, const Schedule& schedule)
      : program_(program),
        schedule_(schedule),
        slots_(program.operations.size()),
        local_to_(program.buffers.size(), -1) {}

  absl::Status Run() {
    TENSORD_RETURN_IF_ERROR(FindSlots());
    TENSORD_RETURN_IF_ERROR(Order());
    for (const ProgramOutput& output : program_.outputs) {
      if (output.kind == ProgramOutput::kTensor && local_to_[output.view.buffer] >= 0) {
        return Broken("output ", output.view.buffer, " is local to a nest");
      }
    }
    return absl::OkStatus();
  }

 private:
  template <typename... Parts>
  static absl::Status Broken(const Parts&... parts) {
    return absl::InternalError(absl::StrCat(parts...));
  }

  absl::Status Take(int operation, const Slot& slot) {
    if (operation < 0 || operation >= static_cast<int>(slots_.size())) {
      return Broken("step ", slot.step, " runs operation ", operation, ", which does not exist");
    }
    if (slots_[operation].step >= 0) return Broken("operation ", operation, " runs twice");
    slots_[operation] = slot;
    return absl::OkStatus();
  }

  absl::Status FindSlots() {
    int nests = 0;
    for (size_t s = 0; s < schedule_.steps.size(); ++s) {
      const auto& work = schedule_.steps[s].work;
      const int step = static_cast<int>(s);
      if (const int* call = std::get_if<int>(&work)) {
        TENSORD_RETURN_IF_ERROR(Take(*call, {step}));
        continue;
      }
      for (const Nest& nest : std::get<Kernel>(work).nests) {
        int member = 0;
        for (const auto* part : {&nest.members, &nest.after}) {
          for (const NestMember& m : *part) {
            TENSORD_RETURN_IF_ERROR(Take(m.op, {step, nests, member++}));
          }
        }
        for (const BufferId id : nest.local) local_to_[id] = nests;
        ++nests;
      }
    }
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].step < 0) return Broken("operation ", i, " runs nowhere");
    }
    return absl::OkStatus();
  }

  absl::Status Order() {
    std::vector<Last> writers(program_.buffers.size()), readers(program_.buffers.size());
    std::vector<WriterIndex> writers_of(program_.buffers.size());
    Last ordered;
    for (size_t i = 0; i < program_.operations.size(); ++i) {
      const Accesses accesses = AccessesOf(program_.operations[i]);
      const Slot& slot = slots_[i];
      const auto* call = std::get_if<ExternOp>(&program_.operations[i]);
      if (call != nullptr && call->ordered) {
        if (ordered.step >= 0 && !ordered.IsBefore(slot)) {
          return Broken("operation ", i, " runs before another whose effects come first");
        }
        ordered.Add(slot);
      }
      for (const auto* touched : {&accesses.reads, &accesses.writes}) {
        for (const BufferId id : *touched) {
          if (local_to_[id] >= 0 && local_to_[id] != slot.nest) {
            return Broken("operation ", i, " touches buffer ", id, ", which is local to a nest");
          }
        }
      }
      for (const BufferId id : accesses.reads) {
        if (writers[id].step >= 0 && !writers[id].IsBefore(slot) &&
            ReadsBeforeItIsWritten(static_cast<int>(i), id, writers_of[id])) {
          return Broken("operation ", i, " runs before buffer ", id, " is written");
        }
        if (local_to_[id] >= 0 && writers[id].step < 0) {
          return Broken("operation ", i, " reads buffer ", id, ", which is local and not written");
        }
      }
      for (const BufferId id : accesses.writes) {
        if (readers[id].step >= 0 && !readers[id].IsBefore(slot)) {
          return Broken("operation ", i, " writes buffer ", id, " before it is read");
        }
      }
      for (const BufferId id : accesses.reads) readers[id].Add(slot);
      for (const BufferId id : accesses.writes) {
        writers[id].Add(slot);
        const auto op = static_cast<int>(i);
        writers_of[id].Add(op, AccessedParts::Stores(program_, op, id));
      }
    }
    return absl::OkStatus();
  }

  // Whether an operation reads elements that one of its buffer's writers writes no earlier.
  bool ReadsBeforeItIsWritten(int reader, BufferId buffer, const WriterIndex& writers) const {
    for (const int op : writers.Meeting(AccessedParts::Loads(program_, reader, buffer))) {
      Last writer;
      writer.Add(slots_[op]);
      if (!writer.IsBefore(slots_[reader])) return true;
    }
    return false;
  }

  const Program& program_;
  const Schedule& schedule_;
  std::vector<Slot> slots_;    // by operation
  std::vector<int> local_to_;  // by buffer: a nest, or -1
};

}  // namespace

absl::Status VerifySchedule(const Program& program, const Schedule& schedule) {
  return Verifier(program, schedule).Run();
}

}  // namespace tensord::compiler
