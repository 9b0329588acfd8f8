// SPDX-License-Identifier: Apache-2.0
// How threads and blocks that share columns combine what they have: of CudaAccumulators.
#include "compiler/codegen/cuda/accumulators.h"
#include "compiler/codegen/reductions.h"

namespace tensord::compiler {
namespace {

ir::Value Sharer() { return ir::IntVar("y"); }

}  // namespace

// By the threads of the block.
ir::Block CudaAccumulators::CombineSharers() const {
  const int columns = plan_.As<CudaColumnGroups>()->columns;
  ir::Block block;
  for (const Accumulator& acc : all_) {
    const ir::Value mine = Named(acc.name, acc, Lanes());
    block.push_back(ir::Set(mine, ir::CallOf("combine_groups", {ir::Value(columns), BlockSize()},
                                             {mine, ir::CombinerOf(CombineFunction(acc.kind())),
                                              ir::Var("tile", ir::BytesType())})));
  }
  return block;
}

// By the last of the blocks that share columns: a thread takes some of the parts.
ir::Block CudaAccumulators::CombineColumnParts(const ir::Value& exists) {
  const auto& groups = *plan_.As<CudaColumnGroups>();
  const int sharers = plan_.threads / groups.columns;
  const ir::Value part = ir::IntVar("part"), other = ir::IntVar("other"), x = ir::IntVar("x");
  ir::Block save, reset, add;
  for (const Accumulator& acc : all_) {
    const ir::Value mine = Named(acc.name, acc, Lanes());
    const ir::Value saved = ir::ReinterpretAs(ir::PointerTo(mine.type()),
                                              ir::ScratchArgument() + body_->Extent(*acc.offset));
    const auto of = [&](const ir::Value& block) {
      return ir::At(saved, ir::CastTo(ir::kInt64Type, block) * groups.columns + x);
    };
    save.push_back(ir::Set(of(BlockNumber()), mine));
    reset.push_back(ir::Set(mine, Start(acc, Lanes())));
    add.push_back(Combine(acc, mine, of(BlockNumber() - part + other)));
  }
  // One for each group of blocks.
  const Expr counters = sym::FloorDiv(plan_.blocks, Expr(groups.parts));
  ir::Block block = {ir::When(ir::And(Sharer() == 0, exists), std::move(save)),
                     ReturnUnlessLast(counters, BlockNumber() / groups.parts, groups.parts)};
  ir::Append(&block, reset);
  const ir::Value end = ir::Choose(exists, groups.parts, 0);
  block.push_back({ir::For{.variable = "other",
                           .type = ir::kIntType,
                           .first = Sharer(),
                           .condition = other < end,
                           .step = sharers,
                           .body = std::move(add)}});
  ir::Append(&block, CombineSharers());
  return block;
}

ir::Block CudaAccumulators::CombineColumnGroups(const ir::Value& exists) {
  ir::Block block = CombineSharers();
  if (plan_.As<CudaColumnGroups>()->parts > 1) ir::Append(&block, CombineColumnParts(exists));
  return block;
}

}  // namespace tensord::compiler
