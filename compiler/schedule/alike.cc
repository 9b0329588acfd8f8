#include "compiler/schedule/alike.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

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

}  // namespace

bool HasAnySize(const Nest& nest) { return IsFlatPointwise(nest) && nest.inner.size() <= 1; }

std::string AlikeText(const Program& program, const Nest& nest) {
  std::map<BufferId, int> numbers;
  const auto number = [&](BufferId id) {
    return numbers.emplace(id, static_cast<int>(numbers.size())).first->second;
  };
  std::string text = absl::StrCat(nest.inner.size(), "\n");
  const auto access = [&](BufferId id, const Expr& index, int guard) {
    absl::StrAppend(&text, " b", number(id), nest.local.count(id) != 0 ? " local " : " ",
                    static_cast<int>(program.buffers[id].dtype), "[", sym::ToString(index), "] if ",
                    guard);
  };
  for (const NestMember& member : nest.members) {
    // The block's own text knows buffers by their numbers in the program.
    Block block = member.loops.block;
    for (const Inst& inst : block.insts) {
      if (inst.kind == InstKind::kLoad) access(inst.buffer, inst.index, inst.guard);
    }
    for (Inst& inst : block.insts) {
      if (inst.kind == InstKind::kLoad) inst.buffer = number(inst.buffer);
    }
    absl::StrAppend(&text, "\n", ToString(block));
    for (const Store& store : member.loops.stores) {
      absl::StrAppend(&text, ValueText(store));
      access(store.buffer, store.index, store.guard);
    }
  }
  return text;
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
