// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "compiler/decompose/lower_graph.h"

namespace tensord::compiler {
namespace {

class Liveness {
 public:
  explicit Liveness(const Program& program) : live_(program.buffers.size(), false) {
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      live_[i] = program.buffers[i].kind == BufferKind::kInput;
    }
    for (const ProgramOutput& output : program.outputs) {
      if (output.kind == ProgramOutput::kTensor) live_[output.view.buffer] = true;
    }
  }

  bool Writes(const LoopOp& op) const {
    if (IsEmpty(op)) return false;
    for (const Store& store : op.stores) {
      if (live_[store.buffer]) return true;
    }
    for (const Reduction& reduction : op.reductions) {
      if (AnyLive(reduction.results)) return true;
    }
    return false;
  }
  bool Writes(const ExternOp& op) const { return AnyLive(op.results) || AnyLive(op.mutated); }

  void Reads(const LoopOp& op) {
    for (const Inst& inst : op.block.insts) {
      if (inst.kind == InstKind::kLoad) live_[inst.buffer] = true;
    }
  }
  void Reads(const ExternOp& op) {
    ForEachView(op.args, [this](const BufferView& view) { live_[view.buffer] = true; });
    for (const BufferId id : op.ends_reading) live_[id] = true;
  }

 private:
  // An independent loop of no steps: nothing is stored. (A reduction of nothing has a value.)
  static bool IsEmpty(const LoopOp& op) {
    return std::any_of(op.sizes.begin(), op.sizes.end(), [](const Expr& e) { return e.Is(0); });
  }

  bool AnyLive(const std::vector<BufferId>& buffers) const {
    return std::any_of(buffers.begin(), buffers.end(),
                       [&](BufferId b) { return b >= 0 && live_[b]; });
  }

  std::vector<bool> live_;
};

}  // namespace

void DropDeadOperations(Program& program) {
  Liveness liveness(program);
  std::vector<Operation> kept;
  for (auto it = program.operations.rbegin(); it != program.operations.rend(); ++it) {
    if (const auto* loop = std::get_if<LoopOp>(&*it)) {
      if (!liveness.Writes(*loop)) continue;
      liveness.Reads(*loop);
    } else {
      const auto& call = std::get<ExternOp>(*it);
      if (!liveness.Writes(call) && !call.ordered) continue;
      liveness.Reads(call);
    }
    kept.push_back(std::move(*it));
  }
  std::reverse(kept.begin(), kept.end());
  program.operations = std::move(kept);
}

}  // namespace tensord::compiler
