// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/equal_nests.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>

namespace tensord::compiler {
namespace {

bool IsFlatPointwise(const Nest& nest) {
  return nest.shape == NestShape::kFlat && nest.outer.empty() &&
         std::all_of(nest.members.begin(), nest.members.end(), [](const NestMember& m) {
           return m.has_inner && m.position == 1 && m.loops.reductions.empty();
         });
}

std::string ValueText(const Store& store) {
  return absl::StrCat(store.mode == StoreMode::kAssign ? "store %" : "add %", store.value);
}

// "i0*262144 + i1" without its numbers: which loops an index follows, and in which order.
std::string FormOf(const Expr& index) {
  std::string form;
  bool in_name = false;
  for (char c : sym::ToString(index)) {
    const bool digit = absl::ascii_isdigit(c);
    in_name = absl::ascii_isalpha(c) || (in_name && digit);
    if (!digit || in_name) {
      form += c;
    } else if (form.empty() || form.back() != '#') {
      form += '#';
    }
  }
  return form;
}

bool IsRandom(const Inst& inst) {
  return inst.kind == InstKind::kCompute &&
         (inst.op == Op::k_philox_uniform || inst.op == Op::k_philox_normal);
}

// Constants that only say which stream of random numbers is meant: they are arguments, because they
// differ from layer to layer.
std::vector<bool> StreamConstants(const LoopOp& loops) {
  const Block& block = loops.block;
  std::vector<bool> is_stream(block.insts.size(), false), is_other(block.insts.size(), false);
  for (const Inst& inst : block.insts) {
    for (size_t i = 0; i < inst.args.size(); ++i) {
      (IsRandom(inst) && i == 1 ? is_stream : is_other)[inst.args[i]] = true;
    }
  }
  for (const Store& store : loops.stores) is_other[store.value] = true;
  for (size_t i = 0; i < is_stream.size(); ++i) {
    is_stream[i] = is_stream[i] && !is_other[i] && block.insts[i].kind == InstKind::kConstant;
  }
  return is_stream;
}

class StructureWriter {
 public:
  StructureWriter(const Program& program, const Nest& nest) : program_(program), nest_(nest) {}

  std::string Write() {
    for (const NestMember& member : nest_.members) {
      const Block& block = member.loops.block;
      const std::vector<bool> is_stream = StreamConstants(member.loops);
      for (size_t i = 0; i < block.insts.size(); ++i) Instruction(block.insts[i], is_stream[i]);
      for (const Store& store : member.loops.stores) {
        absl::StrAppend(&text_, "store ", static_cast<int>(store.mode), " %", store.value);
        Access(store.buffer, store.index, store.guard);
      }
    }
    return text_;
  }

 private:
  void Instruction(const Inst& inst, bool is_stream) {
    absl::StrAppend(&text_, static_cast<int>(inst.kind), " ", static_cast<int>(inst.op), " ",
                    static_cast<int>(inst.dtype), " ", static_cast<int>(inst.storage), " (",
                    absl::StrJoin(inst.args, ","), ") x", inst.symbol);
    if (inst.rule.is_checked) {
      absl::StrAppend(&text_, " wraps ", inst.rule.wraps, " of ", inst.rule.dimension);
    }
    // How far an index from memory may go is a size.
    const Expr index = inst.kind == InstKind::kIndirect ? Expr(0) : inst.index;
    if (inst.kind == InstKind::kLoad) return Access(inst.buffer, index, inst.guard);
    // To the last bit.
    if (inst.kind == InstKind::kConstant && !is_stream) {
      absl::StrAppendFormat(&text_, " %a %d", inst.number, inst.integer);
    }
    absl::StrAppend(&text_, " [", sym::ToString(index), "] if ", inst.guard, "\n");
  }

  void Access(BufferId id, const Expr& index, int guard) {
    const size_t number = numbers_.emplace(id, numbers_.size()).first->second;
    absl::StrAppend(&text_,
                    nest_.local.count(id) != 0     ? " local"
                    : nest_.rounded.count(id) != 0 ? " rounded"
                                                   : " ",
                    "b", number, " ", static_cast<int>(program_.buffers[id].dtype));
    absl::StrAppend(&text_, " [", sym::ToString(index), "] if ", guard, "\n");
  }

  const Program& program_;
  const Nest& nest_;
  std::map<BufferId, size_t> numbers_;  // as they occur
  std::string text_;
};

}  // namespace

bool HasAnySize(const Nest& nest) { return IsFlatPointwise(nest) && nest.inner.size() <= 1; }

std::string StructureText(const Program& program, const Nest& nest) {
  return absl::StrCat(nest.inner.size(), "\n", StructureWriter(program, nest).Write());
}

std::string OperationsText(const Program& program, const Nest& nest) {
  if (!IsFlatPointwise(nest)) return "";
  std::string text;
  for (const NestMember& member : nest.members) {
    Block block = member.loops.block;
    for (Inst& inst : block.insts) {
      absl::StrAppend(&text, FormOf(inst.index), "\n");
      inst.buffer = 0;
      inst.index = Expr(0);
    }
    absl::StrAppend(&text, ToString(block));
    for (const Store& store : member.loops.stores) {
      absl::StrAppend(&text, ValueText(store), " ",
                      static_cast<int>(program.buffers[store.buffer].dtype), " ",
                      FormOf(store.index), "\n");
    }
  }
  return text;
}

}  // namespace tensord::compiler
