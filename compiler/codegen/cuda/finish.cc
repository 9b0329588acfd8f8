// SPDX-License-Identifier: Apache-2.0
// The functions that combine what the blocks of a nest have left: of CudaAccumulators.
#include <absl/strings/str_cat.h>

#include <utility>

#include "base/check.h"
#include "compiler/codegen/cuda/accumulators.h"
#include "compiler/codegen/nest.h"
#include "compiler/codegen/reductions.h"

namespace tensord::compiler {
namespace {

ir::Value SharedBytesOfBlock() { return ir::Var("shared", ir::BytesType()); }

ir::Function FinishFunction(const std::string& name, int threads) {
  return {.name = name,
          .role = ir::Role::kFinish,
          .parameters = {{"args", ir::kArgumentsType},
                         {.name = "block", .type = ir::kIntType},
                         {.name = "shared", .type = ir::BytesType()}},
          .threads = threads,
          .group = threads};
}

// variable = combine(variable, value), for each of this thread's copies (or parts).
ir::Statement ForCopies(const std::string& name, const ir::Value& first, const ir::Value& count,
                        int step, ir::Block body, int unroll = 0) {
  return {ir::For{.variable = name,
                  .type = ir::kIntType,
                  .first = first,
                  .condition = ir::IntVar(name) < count,
                  .step = step,
                  .body = std::move(body),
                  .unroll = unroll}};
}

ir::Value Broadcast(const ir::Value& scalar) {
  return ir::CallOf("broadcast", {ir::Value(1)}, {scalar});
}

}  // namespace

CudaFinish CudaAccumulators::FinishTotal(const Accumulator& acc, const std::string& name) {
  const int threads = Sweep().finish ? Sweep().finish->threads : plan_.threads;
  CudaPlan plan;
  CudaBody body(program_, nest_, interface_, plan);
  const ir::Value copies = body.Extent(Copies());
  const ir::Value saved = SavedAt(acc, &body);
  const ir::Value total = Named("total", acc, 1), result = Named("result", acc, 1);
  StoreResults(acc, result, &body);
  const ir::Value combined = CombineGroup(acc, ir::CallOf(ReduceFunction(acc.kind()), {total}),
                                          threads, SharedBytesOfBlock());
  CudaFinish finish{FinishFunction(name, threads), Expr(1)};
  finish.function.body = body.Declarations();
  ir::Append(
      &finish.function.body,
      {ir::Mutable("total", Start(acc, 1)),
       ForCopies("copy", ir::Thread(), copies, threads,
                 {Combine(acc, total, Broadcast(ir::At(saved, CopyNumber())))}),
       ir::Let("result", Broadcast(combined)), ir::When(ir::Thread() == 0, body.TakeUnit())});
  return finish;
}

// The copies of all columns, then the column statements: of a nest whose rows are the columns.
CudaFinish CudaAccumulators::FinishColumns(const std::vector<const Accumulator*>& columns,
                                           const std::string& name) {
  const FinishLaunch& launch = *Sweep().finish;
  CudaPlan plan;
  Nest nest = nest_;
  nest.outer.insert(nest.outer.end(), nest.inner.begin(), nest.inner.end());
  nest.inner.clear();
  CudaBody body(program_, nest, interface_, plan);
  const Expr extent = sym::Product(nest_.inner);
  const ir::Value count = body.Extent(extent), copies = body.Extent(Copies());
  const ir::Value x = ir::IntVar("x"), y = ir::IntVar("y"), column = ir::IndexVar("column");
  ir::Block start, add, combine;
  for (const Accumulator* acc : columns) {
    const std::string function = CombineFunction(acc->kind());
    const ir::Value sum = Named(acc->name, *acc, 1);
    std::vector<ir::Value> saved;
    const size_t parts = ColumnParts(acc->kind()).size();
    for (size_t part = 0; part < parts; ++part) {
      saved.push_back(Broadcast(ir::At(ColumnAt(*acc, part, &body), column)));
    }
    start.push_back(ir::Mutable(acc->name, Start(*acc, 1)));
    add.push_back(Combine(*acc, sum, parts > 1 ? ir::StateLike(sum, saved) : saved[0]));
    combine.push_back(ir::Set(
        sum, ir::CallOf("combine_groups", {ir::Value(launch.columns), ir::Value(launch.threads)},
                        {sum, ir::CombinerOf(function), SharedBytesOfBlock()})));
    StoreResults(*acc, sum, &body);
  }
  for (const NestMember& member : nest_.after) {
    body.LowerStores(member, [](BufferId) { return false; });
  }
  ir::Block results = DecodeLoops(&body, {.extents = nest_.inner,
                                          .first_loop = static_cast<int>(nest_.outer.size()),
                                          .number = column});
  ir::Append(&results, body.TakeUnit());
  CudaFinish finish{FinishFunction(name, launch.threads),
                    sym::CeilDiv(extent, Expr(launch.columns))};
  ir::Block& block = finish.function.body;
  block = body.Declarations();
  ir::Append(&block, {ir::DeclareAll(ir::kIntType, {{"x", ir::Thread() % launch.columns},
                                                    {"y", ir::Thread() / launch.columns}}),
                      ir::LetIndex("column", BlockNumber() * launch.columns + x)});
  ir::Append(&block, start);
  block.push_back(
      ir::When(column < count, {ForCopies("copy", y, copies, launch.threads / launch.columns,
                                          std::move(add), launch.copies_in_flight)}));
  ir::Append(&block, combine);
  block.push_back(ir::When(ir::And(y == 0, column < count), std::move(results)));
  return finish;
}

// The parts of row `block`, then the row's statements: always in the row's last block.
CudaFinish CudaAccumulators::FinishSplit(const std::string& name) {
  const int threads = plan_.threads, parts = plan_.As<CudaSplit>()->parts;
  const CudaPlan plan{.threads = threads, .kind = CudaRows{.group = {.threads = threads}}};
  CudaBody body(program_, nest_, interface_, plan);
  const ir::Value row = ir::IndexVar("row"), part = ir::IntVar("part");
  ir::Block block = {ir::LetIndex("row", BlockNumber()),
                     ir::DeclareAll(ir::kIntType, {{"lane", ir::Thread()}})};
  ir::Append(&block, DecodeLoops(&body, {.extents = nest_.outer, .number = row}));
  body.BeginPass();
  for (const Accumulator& acc : all_) {
    const bool plain = StateOf(acc.kind()) == nullptr;
    const ir::Value saved = ir::At(SavedAt(acc, &body), row * parts + part);
    const ir::Value sum = Named(acc.name, acc, 1);
    block.push_back(ir::Mutable(acc.name, Start(acc, 1)));
    block.push_back(ForCopies("part", LaneOfGroup(), parts, threads,
                              {Combine(acc, sum, plain ? Broadcast(saved) : saved)}));
    const ir::Value mine = plain ? ir::CallOf(ReduceFunction(acc.kind()), {sum}) : sum;
    const ir::Value result = CombineGroup(acc, mine, threads, SharedBytesOfBlock());
    StoreResults(acc, body.Define(0, plain ? Broadcast(result) : result), &body);
  }
  for (const NestMember& member : nest_.members) {
    if (member.has_inner) continue;
    body.LowerStores(member, [](BufferId) { return false; });
  }
  ir::Append(&block, body.TakeUnit());
  CudaFinish finish{FinishFunction(name, threads), sym::Product(nest_.outer)};
  finish.function.body = body.Declarations();
  ir::Append(&finish.function.body, block);
  return finish;
}

std::vector<CudaFinish> CudaAccumulators::Finish(const std::string& name) {
  std::vector<CudaFinish> finishes;
  if (plan_.Is<CudaColumnGroups>()) return finishes;
  std::vector<const Accumulator*> columns;
  for (const Accumulator& acc : all_) {
    if (!acc.offset) continue;
    if (plan_.Is<CudaSplit>()) {
      finishes.push_back(FinishSplit(absl::StrCat(name, "_finish")));
      return finishes;
    }
    for (BufferId id : acc.reduction->results) interface_->MarkWritten(id);
    if (acc.IsColumns()) {
      columns.push_back(&acc);
    } else {
      finishes.push_back(FinishTotal(acc, absl::StrCat(name, "_finish_", acc.name)));
    }
  }
  if (!columns.empty()) finishes.push_back(FinishColumns(columns, absl::StrCat(name, "_finish")));
  return finishes;
}

ir::Statement CudaAccumulators::ReturnUnlessLast(const Expr& counters, const ir::Value& number,
                                                 const ir::Value& sharers) {
  const Expr first = interface_->ReserveCounters(counters);
  const ir::Value counter = ir::CountersArgument() + body_->Scalar(first) + number;
  return ir::When(ir::Not(ir::CallOf("is_last_block", {counter, sharers})), {{ir::Return{}}});
}

ir::Block CudaAccumulators::FinishInLastBlock(const std::vector<CudaFinish>& finishes) {
  TENSORD_CHECK(plan_.column_tiles() == nullptr,
                "the last block would have many copies of its columns to combine");
  // The counter that the block shares, and with how many.
  const auto* split = plan_.As<CudaSplit>();
  const ir::Value number = split != nullptr ? ir::IndexVar("row") : ir::Value(0);
  const ir::Value sharers = split != nullptr ? ir::Value(split->parts) : Blocks();
  const Expr counters = split != nullptr ? sym::Product(nest_.outer) : Expr(1);
  ir::Block block = {ReturnUnlessLast(counters, number, sharers)};
  const ir::Value shared = ir::CastTo(ir::BytesType(), ir::FieldOf(GroupMemory(), "shared"));
  for (const CudaFinish& finish : finishes) {
    block.push_back(ir::Do(ir::CallOfFunction(
        finish.function.name, {ir::Var("args", ir::kArgumentsType), number, shared})));
  }
  return block;
}

}  // namespace tensord::compiler
