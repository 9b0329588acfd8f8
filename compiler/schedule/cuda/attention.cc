// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/attention.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "compiler/schedule/cuda/attention_factor.h"
#include "compiler/schedule/cuda/widths.h"

namespace tensord::compiler {
namespace {

constexpr int kPanel = 64;        // columns of a panel in shared memory, and rows of a tile
constexpr int kItemBytes = 2;     // of queries, keys and values
constexpr int kAlignment = 1024;  // of what warpgroups multiply

// Tiles that a block has under way (kernels/cuda/attention_tiles.cuh).
constexpr int kStages = 3, kStagesOfKeyGradients = 2;

const BufferView& ViewOf(const ExternOp& op, int arg) {
  return std::get<BufferView>(op.args[arg].value);
}

int ColumnsFor(const Expr& width) {
  const int64_t columns = width.AsConstant().value_or(kPanel);
  return static_cast<int>((columns + kPanel - 1) / kPanel * kPanel);
}

// What follows was measured on an H200, of 16 to 32 heads of 2048 and 8192 rows.
int RowsOf(Attention::Kind kind, int columns, int64_t block_rows) {
  const bool is_wide = kind == Attention::kQueryGradient && columns > kPanel;
  return is_wide && block_rows % (2 * kPanel) == 0 ? 2 * kPanel : kPanel;
}

int ResidentOf(Attention::Kind kind, int columns) {
  if (columns <= kPanel) return 3;
  return kind == Attention::kQueryGradient ? 1 : 2;
}

// The most that `joined` takes (kernel_ir/prelude.cc).
constexpr size_t kMaxQueryValues = 4;
constexpr int kKeyLoop = 3;

std::vector<CudaAttentionPlan::QueryValue> QueryValuesOf(const Attention& attention) {
  const std::vector<Inst>& insts = attention.functions[0].block.insts;
  const auto is_read_at = [&](const Inst& load) {
    return std::ranges::all_of(attention.functions, [&](const LoopOp& function) {
      return std::ranges::all_of(function.block.insts, [&](const Inst& inst) {
        return inst.kind != InstKind::kLoad || inst.buffer != load.buffer ||
               (inst.index == load.index && inst.guard < 0);
      });
    });
  };
  std::vector<CudaAttentionPlan::QueryValue> values;
  for (int id = 0; id < static_cast<int>(insts.size()); ++id) {
    const Inst& load = insts[id];
    if (load.kind != InstKind::kLoad || load.storage != kFloat32) continue;
    if (std::ranges::count(attention.products, load.buffer) > 0) continue;
    if (sym::Contains(load.index, {sym::AtomKind::kLoop, kKeyLoop})) continue;
    if (sym::ContainsKind(load.index, sym::AtomKind::kIndirect) || !is_read_at(load)) continue;
    if (std::ranges::count(values, load.buffer, &CudaAttentionPlan::QueryValue::buffer) > 0)
      continue;
    if (values.size() < kMaxQueryValues) values.push_back({load.buffer, id});
  }
  return values;
}

bool IsWide(const Program& program, const Attention& attention) {
  for (const LoopOp& function : attention.functions) {
    for (const Inst& inst : function.block.insts) {
      if (inst.kind != InstKind::kLoad) continue;
      const bool stands_for_products = std::ranges::count(attention.products, inst.buffer) > 0;
      if (!stands_for_products && NeedsWideIndex(program.buffers[inst.buffer])) return true;
    }
  }
  return false;
}

}  // namespace

CudaAttentionPlan PlanCudaAttention(const Program& program, const ExternOp& op) {
  const Attention& attention = *op.attention;
  const BufferView &query = ViewOf(op, 0), &key = ViewOf(op, 1), &value = ViewOf(op, 2);
  CudaAttentionPlan plan;
  plan.columns = ColumnsFor(key.sizes[3]);
  plan.value_columns = ColumnsFor(value.sizes[3]);
  const int columns = std::max(plan.columns, plan.value_columns);
  const bool of_keys = attention.kind == Attention::kKeyGradients;
  plan.rows = RowsOf(attention.kind, columns, attention.block_queries);
  plan.threads = 2 * plan.rows;
  plan.resident = ResidentOf(attention.kind, columns);
  const int both = (plan.columns + plan.value_columns) * kItemBytes;
  const int of_rows = attention.kind == Attention::kForward ? plan.columns * kItemBytes : both;
  plan.shared_bytes = kAlignment + plan.rows * of_rows +
                      (of_keys ? kStagesOfKeyGradients : kStages) * kPanel * both;
  plan.query_values = QueryValuesOf(attention);
  plan.functions = attention.functions;
  if (attention.kind == Attention::kForward) plan.factor = TakeFactor(&plan.functions);
  if (of_keys) plan.shared_bytes += kStagesOfKeyGradients * kPanel * plan.query_lanes() * 4;
  const BufferView& tiled = of_keys ? key : query;
  plan.blocks = sym::CeilDiv(tiled.sizes[2], Expr(plan.rows)) * tiled.sizes[0] * tiled.sizes[1];
  plan.wide_index = IsWide(program, attention);
  return plan;
}

std::string ToString(const CudaAttentionPlan& plan) {
  return absl::StrCat("  plan: attention of ", plan.rows, " rows, ", plan.columns, " and ",
                      plan.value_columns, " columns, t", plan.threads, " shared ",
                      plan.shared_bytes, "\n");
}

}  // namespace tensord::compiler
