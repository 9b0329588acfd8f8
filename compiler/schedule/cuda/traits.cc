// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/traits.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/loop_ir/program.h"
#include "compiler/schedule/cuda/widths.h"
#include "compiler/schedule/reduce_kinds.h"

namespace tensord::compiler {
namespace {

// Scalars that every thread may compute for one vector.
constexpr int kCheapScalars = 30;
// Instructions that a load of a scalar counts for.
constexpr int kInstructionsOfLoad = 6;
// Shorter rows are left in parts of a block that idle.
constexpr int64_t kLeastExpensiveRow = 8192;
// Where what a kernel writes is used again, protecting what it reads costs more than it gains: on
// an H200 with 50 MiB of cache ResNet-50, whose images have up to 98 MiB, took 6 % longer.
constexpr int64_t kCachesOfOverflow = 2;
// Elements of a row that is found by loads behind each other.
constexpr int64_t kLeastGatheredRow = 128;

int CostOfScalars(const Nest& nest) {
  int cost = 0;
  for (const NestMember& member : nest.members) {
    std::vector<bool> varies;
    for (const Inst& inst : member.loops.block.insts) {
      bool differs = (inst.kind == InstKind::kLoad || inst.kind == InstKind::kIndex) &&
                     (sym::ContainsKind(inst.index, sym::AtomKind::kLoop) ||
                      sym::ContainsKind(inst.index, sym::AtomKind::kIndirect));
      for (int arg : inst.args) differs = differs || varies[arg];
      if (inst.kind == InstKind::kCompute && !differs) cost += InfoOf(inst.op).cost;
      varies.push_back(differs);
    }
  }
  return cost;
}

// What is computed and loaded for a row of a pointwise nest before its vectors, in instructions.
int RowCost(const Nest& nest) {
  const sym::SymbolKey last = VectorLoopOf(nest);
  int cost = 0;
  for (const NestMember& member : nest.members) {
    std::vector<bool> varies;
    for (const Inst& inst : member.loops.block.insts) {
      const auto step = sym::LinearCoefficient(inst.index, last);
      bool differs =
          !step || !step->Is(0) || sym::ContainsKind(inst.index, sym::AtomKind::kIndirect);
      for (int arg : inst.args) differs = differs || varies[arg];
      if (inst.kind == InstKind::kCompute && !differs) cost += InfoOf(inst.op).cost;
      if (inst.kind == InstKind::kLoad && !differs) cost += kInstructionsOfLoad;
      varies.push_back(differs);
    }
  }
  return cost;
}

}  // namespace

bool IsPointwise(const Nest& nest) {
  return !HasScans(nest) &&
         std::all_of(nest.members.begin(), nest.members.end(), [](const NestMember& m) {
           return m.has_inner && m.position <= 1 && m.loops.reductions.empty();
         });
}

bool HasScans(const Nest& nest) {
  return std::any_of(nest.members.begin(), nest.members.end(),
                     [&](const NestMember& m) { return HasScansAt(nest, m.position); });
}

bool HasScansAt(const Nest& nest, int position) {
  if (nest.inner.empty()) return false;  // of one element
  return std::any_of(nest.members.begin(), nest.members.end(), [position](const NestMember& m) {
    const std::vector<Inst>& insts = m.loops.block.insts;
    return m.position == position && std::any_of(insts.begin(), insts.end(), [](const Inst& inst) {
             return inst.kind == InstKind::kScan;
           });
  });
}

bool HasExpensiveScalars(const Nest& nest) {
  return nest.outer.empty() && CostOfScalars(nest) > kCheapScalars;
}

bool HasExpensiveRowScalars(const Nest& nest) {
  return !nest.inner.empty() && sym::Hint(nest.inner.back()) >= kLeastExpensiveRow &&
         RowCost(nest) > kCheapScalars;
}

bool GathersRows(const Nest& nest) {
  if (nest.inner.empty() || sym::Hint(nest.inner.back()) < kLeastGatheredRow) return false;
  const sym::SymbolKey last = VectorLoopOf(nest);
  bool gathers = false;
  for (const NestMember& member : nest.members) {
    std::map<int, int> depth;  // by symbol: loads behind each other
    std::vector<int> of_value;
    const auto of_index = [&](const Expr& index) {
      int most = 0;
      sym::ForEachSymbol(index, [&](const sym::Atom& atom) {
        if (atom.kind == sym::AtomKind::kIndirect) most = std::max(most, depth[atom.id]);
      });
      return most;
    };
    for (const Inst& inst : member.loops.block.insts) {
      int most = of_index(inst.index);
      for (int arg : inst.args) most = std::max(most, of_value[arg]);
      if (inst.guard >= 0) most = std::max(most, of_value[inst.guard]);
      if (inst.kind == InstKind::kLoad) {
        gathers = gathers || (most >= 2 && sym::Contains(inst.index, last));
        ++most;
      }
      if (inst.kind == InstKind::kIndirect) depth[inst.symbol] = most;
      of_value.push_back(most);
    }
  }
  return gathers;
}

int VectorOperands(const Nest& nest) {
  const sym::SymbolKey last = VectorLoopOf(nest);
  std::set<std::pair<BufferId, Expr>> operands;
  for (const NestMember& member : nest.members) {
    for (const Inst& inst : member.loops.block.insts) {
      if (inst.kind == InstKind::kLoad && nest.local.count(inst.buffer) == 0 &&
          sym::Contains(inst.index, last)) {
        operands.emplace(inst.buffer, inst.index);
      }
    }
  }
  return static_cast<int>(operands.size());
}

bool OverflowsCache(const Program& program, const Nest& nest, const v1::CudaTarget& target) {
  const sym::SymbolKey last = VectorLoopOf(nest);
  std::set<BufferId> read, written;
  for (const NestMember& member : nest.members) {
    for (const Inst& inst : member.loops.block.insts) {
      if (inst.kind == InstKind::kLoad && sym::Contains(inst.index, last)) read.insert(inst.buffer);
    }
    for (const Store& store : member.loops.stores) written.insert(store.buffer);
  }
  const auto overflows = [&](const std::set<BufferId>& buffers) {
    int64_t bytes = 0;
    for (BufferId id : buffers) {
      if (nest.local.count(id) == 0) bytes += BufferBytes(program.buffers[id]);
    }
    return bytes / kCachesOfOverflow >= target.l2_bytes();
  };
  return target.l2_bytes() > 0 && overflows(read) && overflows(written);
}

bool HasArgReduction(const Nest& nest) {
  for (const NestMember& member : nest.members) {
    for (const Reduction& reduction : member.loops.reductions) {
      if (IsArg(reduction.kind)) return true;
    }
  }
  return false;
}

}  // namespace tensord::compiler
