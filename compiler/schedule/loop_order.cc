// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/loop_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace tensord::compiler {
namespace {

// The size of one step of a loop in an index; 0 when it does not occur. A loop inside a division or
// behind an indirection counts with the difference that its first step makes.
int64_t StrideHint(const Expr& index, int loop) {
  const sym::SymbolKey key{sym::AtomKind::kLoop, loop};
  if (!sym::Contains(index, key)) return 0;
  if (auto c = sym::LinearCoefficient(index, key)) return std::abs(sym::Hint(*c));
  const auto value = [&](int64_t at) {
    return sym::Evaluate(index, [&](const sym::Atom& atom) -> int64_t {
      if (atom.kind == sym::AtomKind::kSize) return atom.hint;
      return atom.kind == sym::AtomKind::kLoop && atom.id == loop ? at : 0;
    });
  };
  return std::max<int64_t>(1, std::abs(value(1) - value(0)));
}

// The loops that each indirect symbol's value depends on.
std::map<int, std::set<int>> LoopsBehindIndirection(const LoopOp& op) {
  std::map<int, std::set<int>> behind;
  std::vector<std::set<int>> loops(op.block.insts.size());
  for (size_t i = 0; i < op.block.insts.size(); ++i) {
    const Inst& inst = op.block.insts[i];
    for (int arg : inst.args) loops[i].insert(loops[arg].begin(), loops[arg].end());
    if (inst.kind == InstKind::kLoad || inst.kind == InstKind::kIndex) {
      sym::ForEachSymbol(inst.index, [&](const sym::Atom& atom) {
        if (atom.kind == sym::AtomKind::kLoop) loops[i].insert(atom.id);
        if (atom.kind == sym::AtomKind::kIndirect) {
          loops[i].insert(behind[atom.id].begin(), behind[atom.id].end());
        }
      });
    }
    if (inst.kind == InstKind::kIndirect) behind[inst.symbol] = loops[i];
  }
  return behind;
}

// The index by which loops are ordered: the first store's, or that of the load that covers most of
// the iteration space. Loops that only an indirection sees count as covered.
const Expr* LeadingIndex(const LoopOp& op) {
  if (!op.stores.empty() && !sym::ContainsKind(op.stores[0].index, sym::AtomKind::kIndirect)) {
    return &op.stores[0].index;
  }
  const std::map<int, std::set<int>> behind = LoopsBehindIndirection(op);
  const Expr* widest = nullptr;
  int64_t most = -1;
  for (const Inst& inst : op.block.insts) {
    if (inst.kind != InstKind::kLoad) continue;
    std::set<int> covered;
    sym::ForEachSymbol(inst.index, [&](const sym::Atom& atom) {
      if (atom.kind == sym::AtomKind::kLoop) covered.insert(atom.id);
      if (atom.kind == sym::AtomKind::kIndirect) {
        const std::set<int>& loops = behind.at(atom.id);
        covered.insert(loops.begin(), loops.end());
      }
    });
    int64_t weight = 1;
    for (int loop : covered) weight *= std::max<int64_t>(1, sym::Hint(ExtentOf(op, loop)));
    if (weight > most) {
      most = weight;
      widest = &inst.index;
    }
  }
  return widest;
}

}  // namespace

Expr ExtentOf(const LoopOp& op, int loop) {
  const int outer = static_cast<int>(op.sizes.size());
  return loop < outer ? op.sizes[loop] : op.reduce_sizes[loop - outer];
}

int LoopCount(const LoopOp& op) {
  return static_cast<int>(op.sizes.size() + op.reduce_sizes.size());
}

std::vector<int64_t> LeadingStrides(const LoopOp& op) {
  const Expr* leading = LeadingIndex(op);
  if (leading == nullptr) return {};
  std::vector<int64_t> strides;
  for (int loop = 0; loop < LoopCount(op); ++loop) {
    const int64_t stride = StrideHint(*leading, loop);
    strides.push_back(stride == 0 ? INT64_MAX : stride);
  }
  return strides;
}

std::vector<int> LoadOrder(const LoopOp& op) {
  std::vector<int> order(LoopCount(op));
  std::iota(order.begin(), order.end(), 0);
  const std::vector<int64_t> strides = LeadingStrides(op);
  if (strides.empty()) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return strides[a] > strides[b]; });
  return order;
}

}  // namespace tensord::compiler
