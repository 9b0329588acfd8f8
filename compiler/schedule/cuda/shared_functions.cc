#include "compiler/schedule/cuda/shared_functions.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <map>

#include "compiler/schedule/alike.h"

namespace tensord::compiler {
namespace {

bool IsRandom(const Inst& inst) {
  return inst.kind == InstKind::kCompute &&
         (inst.op == Op::k_philox_uniform || inst.op == Op::k_philox_normal);
}

// Constants that only say which stream of random numbers is meant: they are arguments, because they
// differ from layer to layer.
std::vector<bool> StreamConstants(const Block& block) {
  std::vector<bool> is_stream(block.insts.size(), false), is_other(block.insts.size(), false);
  for (const Inst& inst : block.insts) {
    for (size_t i = 0; i < inst.args.size(); ++i) {
      (IsRandom(inst) && i == 1 ? is_stream : is_other)[inst.args[i]] = true;
    }
  }
  for (size_t i = 0; i < is_stream.size(); ++i) {
    is_stream[i] = is_stream[i] && !is_other[i] && block.insts[i].kind == InstKind::kConstant;
  }
  return is_stream;
}

class KeyWriter {
 public:
  KeyWriter(const Program& program, const Nest& nest) : program_(program), nest_(nest) {}

  std::string Write() {
    for (const NestMember& member : nest_.members) {
      const Block& block = member.loops.block;
      const std::vector<bool> is_stream = StreamConstants(block);
      for (size_t i = 0; i < block.insts.size(); ++i) Instruction(block.insts[i], is_stream[i]);
      for (const Store& store : member.loops.stores) {
        absl::StrAppend(&key_, "store ", static_cast<int>(store.mode), " %", store.value);
        Access(store.buffer, store.index, store.guard);
      }
    }
    return has_sizes_ ? "" : key_;
  }

 private:
  void Instruction(const Inst& inst, bool is_stream) {
    absl::StrAppend(&key_, static_cast<int>(inst.kind), " ", static_cast<int>(inst.op), " ",
                    static_cast<int>(inst.dtype), " ", static_cast<int>(inst.storage), " (",
                    absl::StrJoin(inst.args, ","), ") x", inst.symbol);
    // How far an index from memory may go is a size.
    const Expr index = inst.kind == InstKind::kIndirect ? Expr(0) : inst.index;
    if (inst.kind == InstKind::kLoad) return Access(inst.buffer, index, inst.guard);
    // To the last bit.
    if (inst.kind == InstKind::kConstant && !is_stream) {
      absl::StrAppendFormat(&key_, " %a %d", inst.number, inst.integer);
    }
    Index(index);
    absl::StrAppend(&key_, " if ", inst.guard, "\n");
  }

  void Access(BufferId id, const Expr& index, int guard) {
    const size_t number = numbers_.emplace(id, numbers_.size()).first->second;
    absl::StrAppend(&key_, nest_.local.count(id) != 0 ? " local" : " ", "b", number, " ",
                    static_cast<int>(program_.buffers[id].dtype));
    Index(index);
    absl::StrAppend(&key_, " if ", guard, "\n");
  }

  void Index(const Expr& index) {
    has_sizes_ = has_sizes_ || sym::ContainsKind(index, sym::AtomKind::kSize);
    absl::StrAppend(&key_, " [", sym::ToString(index), "]");
  }

  const Program& program_;
  const Nest& nest_;
  std::map<BufferId, size_t> numbers_;  // as they occur
  std::string key_;
  bool has_sizes_ = false;
};

}  // namespace

std::string FunctionKey(const Program& program, const Nest& nest, const CudaPlan& plan) {
  if (!plan.Is<CudaElements>() || !HasAnySize(nest)) return "";
  const std::string key = KeyWriter(program, nest).Write();
  return key.empty() ? "" : absl::StrCat(ToString(plan), " of ", nest.inner.size(), "\n", key);
}

std::vector<std::vector<size_t>> FindSharedFunctions(const std::vector<std::string>& keys) {
  std::map<std::string, size_t> group_of;
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].empty()) continue;
    const auto [it, is_new] = group_of.emplace(keys[i], groups.size());
    if (is_new) groups.emplace_back();
    groups[it->second].push_back(i);
  }
  std::erase_if(groups, [](const std::vector<size_t>& group) { return group.size() < 2; });
  return groups;
}

}  // namespace tensord::compiler
