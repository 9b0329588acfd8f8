// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cpu/accumulators.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "compiler/codegen/cpu/body.h"
#include "compiler/codegen/reductions.h"

namespace tensord::compiler {
namespace {

// A statement for each `task` but the first.
ir::Statement ForOtherTasks(ir::Statement statement) {
  return {ir::For{.variable = "task",
                  .first = 1,
                  .condition = ir::IndexVar("task") < ir::IndexVar("tasks"),
                  .step = 1,
                  .body = {std::move(statement)}}};
}

}  // namespace

CpuAccumulators::CpuAccumulators(const Program& program, const Nest& nest, const CpuPlan& plan,
                                 BodyLowering* body, KernelInterface* interface)
    : Accumulators(program, nest, body, interface), plan_(plan), offsets_(all_.size()) {
  for (size_t i = 0; i < all_.size(); ++i) {
    if (!all_[i].IsPrivate()) continue;
    const Expr count = all_[i].IsColumns() ? sym::Product(nest_.inner) : Expr(1);
    offsets_[i] =
        body_->Scalar(interface_->ReserveScratch(count * ItemSize(ComputeType(all_[i].dtype))));
  }
}

bool CpuAccumulators::HasPrivate() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Accumulator& acc) { return acc.IsPrivate(); });
}

std::string CpuAccumulators::NameOf(const Accumulator& acc, int copy) {
  return copy == 0 ? acc.name : absl::StrCat(acc.name, "_", copy);
}

ir::Value CpuAccumulators::Array(const Accumulator& acc) {
  return ir::Var(acc.name, ir::PointerTo(acc.scalar()));
}

const ir::Value& CpuAccumulators::OffsetOf(const Accumulator& acc) const {
  return offsets_[&acc - all_.data()];
}

ir::Block CpuAccumulators::DeclareRow(int position, int copies) const {
  ir::Block block;
  const auto declare = [&](const Accumulator& acc) {
    for (int copy = 0; copy < copies; ++copy) {
      block.push_back(ir::Mutable(NameOf(acc, copy), Start(acc, Lanes())));
    }
  };
  for (const Accumulator& acc : all_) {
    if (acc.member->position != position || acc.IsPrivate()) continue;
    const auto* blocks = plan_.As<CpuColumnBlocks>();
    if (blocks == nullptr) {
      declare(acc);
      continue;
    }
    const ir::Value c = ir::IndexVar("c");
    block.push_back({ir::DeclareArray{
        .type = acc.scalar(), .arrays = {{acc.name, blocks->columns}}, .alignment = kVectorBytes}});
    block.push_back(
        {ir::For{.variable = "c",
                 .first = 0,
                 .condition = c < blocks->columns,
                 .step = 1,
                 .body = {ir::Set(ir::At(Array(acc), c), IdentityOf(acc.kind(), acc.dtype))}}});
  }
  // Full reductions gather a unit's share apart, so that no long chain of additions builds up.
  for (const Accumulator& acc : all_) {
    if (acc.member->position == position && acc.IsPrivate() && !acc.IsColumns()) declare(acc);
  }
  return block;
}

ir::Value CpuAccumulators::AddressOf(const Accumulator& acc) const {
  if (IsBlocked()) return Array(acc) + (LoopVar(VectorLoop()) - ir::IndexVar("first"));
  return acc.IsPrivate() && acc.IsColumns() ? Array(acc) + body_->InnerPosition() : ir::Value();
}

ir::Value CpuAccumulators::VariableOf(const Accumulator& acc, int copy) const {
  return Named(NameOf(acc, copy), acc, Lanes());
}

ir::Value CpuAccumulators::AddTail(const StateFunctions& state, const ir::Value& target,
                                   const ir::Value& value, const ir::Value& position) const {
  std::vector<ir::Value> operands = {target, value};
  if (position) operands.push_back(position);
  operands.push_back(Left());
  return ir::CallOf(absl::StrCat(state.name, "_add_tail"), std::move(operands));
}

void CpuAccumulators::RowResults(int position, int copies) {
  const auto merge_copies = [&](const Accumulator& acc) {
    for (int copy = 1; copy < copies; ++copy) {
      body_->Add(
          0, Combine(acc, Named(acc.name, acc, Lanes()), Named(NameOf(acc, copy), acc, Lanes())));
    }
  };
  for (const Accumulator& acc : all_) {
    if (acc.member->position != position || !acc.IsPrivate() || acc.IsColumns()) continue;
    merge_copies(acc);
    body_->Add(0, Combine(acc, Named(absl::StrCat("total_", acc.name), acc, Lanes()),
                          Named(acc.name, acc, Lanes())));
  }
  if (IsBlocked()) return;
  for (const Accumulator& acc : all_) {
    if (acc.member->position != position || acc.IsPrivate()) continue;
    merge_copies(acc);
    body_->SetMember(acc.member);
    const ir::Value reduced =
        ir::CallOf(ReduceFunction(acc.kind()), {Named(acc.name, acc, Lanes())});
    const bool plain = StateOf(acc.kind()) == nullptr;
    StoreResults(
        acc, body_->Define(0, plain ? ir::CallOf("broadcast", {ir::Value(1)}, {reduced}) : reduced),
        body_);
  }
}

ir::Block CpuAccumulators::StoreBlock(int position, const ir::Value& first, const ir::Value& last) {
  ir::Block block;
  const int loop = VectorLoop();
  for (const Accumulator& acc : all_) {
    if (acc.member->position != position || acc.IsPrivate()) continue;
    body_->SetMember(acc.member);
    const ir::Value element = ir::At(Array(acc), LoopVar(loop) - ir::IndexVar("first"));
    body_->StoreRowResult(acc.reduction->results[0], acc.reduction->indices[0],
                          {.value = ir::CallOf("broadcast", {ir::Value(1)}, {element})});
    block.push_back(
        {ir::Scope{{ir::DeclareAll(ir::kIndexType, {{"first", first}, {"last", last}}),
                    ir::Loop(LoopName(loop), ir::IndexVar("first"),
                             LoopVar(loop) < ir::IndexVar("last"), 1, body_->TakeUnit())}}});
  }
  return block;
}

// ---- Accumulators that outlive units

ir::Block CpuAccumulators::DeclarePrivate() {
  ir::Block block;
  for (const Accumulator& acc : all_) {
    if (!acc.IsPrivate()) continue;
    const ir::Value identity = IdentityOf(acc.kind(), acc.dtype);
    if (acc.IsColumns()) {
      const ir::Type type = ir::PointerTo(acc.scalar());
      const ir::Value at = ir::Var("scratch", ir::BytesType()) + OffsetOf(acc);
      const ir::Value c = ir::IndexVar("c"), count = body_->Extent(sym::Product(nest_.inner));
      block.push_back(ir::DeclareAll(type, {{acc.name, ir::ReinterpretAs(type, at)}}));
      block.push_back({ir::For{.variable = "c",
                               .first = 0,
                               .condition = c < count,
                               .step = 1,
                               .body = {ir::Set(ir::At(Array(acc), c), identity)}}});
    } else if (acc.member->has_inner) {
      block.push_back(ir::Mutable(absl::StrCat("total_", acc.name), Start(acc, Lanes())));
    } else {
      block.push_back(ir::Mutable(acc.name, Start(acc, 1)));
    }
  }
  return block;
}

ir::Block CpuAccumulators::SavePrivate() const {
  ir::Block block;
  for (const Accumulator& acc : all_) {
    if (!acc.IsPrivate() || acc.IsColumns()) continue;
    const ir::Value value =
        acc.member->has_inner ? ir::CallOf(ReduceFunction(acc.kind()),
                                           {Named(absl::StrCat("total_", acc.name), acc, Lanes())})
                              : ir::CallOf("get", {Named(acc.name, acc, 1), 0});
    const ir::Value at = ir::ReinterpretAs(ir::PointerTo(acc.scalar()),
                                           ir::Var("scratch", ir::BytesType()) + OffsetOf(acc));
    block.push_back(ir::Set(ir::Dereference(at), value));
  }
  return block;
}

ir::Block CpuAccumulators::FinishTotal(const Accumulator& acc) {
  const std::vector<ir::TemplateArgument> types = {acc.scalar(), 1};
  const ir::Type storage = ir::ScalarType(program_.buffers[acc.reduction->results[0]].dtype);
  const ir::Type of_part = ir::PointerTo(acc.scalar(), true);
  const auto part = [&](const ir::Value& task) {
    return ir::CallOf("load", types, {ir::CallOfFunction("part", {task}, of_part)});
  };
  const ir::Value total = Named("total", acc, 1);
  const ir::Value at = body_->Scalar(acc.reduction->indices[0]);
  return {ir::Mutable("total", part(0)),
          ForOtherTasks(Combine(acc, total, part(ir::IndexVar("task")))),
          ir::Do(ir::CallOf("store", {storage, 1},
                            {ir::Var("out", ir::PointerTo(storage)) + at, total}))};
}

ir::Block CpuAccumulators::FinishColumns(const Accumulator& acc) {
  const std::vector<ir::TemplateArgument> types = {acc.scalar(), Width()};
  const ir::Type storage = ir::ScalarType(program_.buffers[acc.reduction->results[0]].dtype);
  std::vector<ir::Value> extents;
  for (const Expr& extent : nest_.inner) {
    if (&extent != &nest_.inner.back()) extents.push_back(body_->Extent(extent));
  }
  const ir::Value loop = LoopVar(VectorLoop()), position = body_->InnerPosition();
  const ir::Value extent = body_->Extent(nest_.inner.back());
  const auto part = [&](const ir::Value& task) {
    const ir::Value at =
        ir::CallOfFunction("part", {task}, ir::PointerTo(acc.scalar(), true)) + position;
    return ir::CallOf("load_tail", types, {at, Left()});
  };
  const auto step =
      sym::LinearCoefficient(acc.reduction->indices[0], {sym::AtomKind::kLoop, VectorLoop()});
  TENSORD_CHECK(step.has_value(), "a column result without a step");
  const ir::Value at =
      ir::Var("out", ir::PointerTo(storage)) + body_->Scalar(acc.reduction->indices[0]);
  const ir::Value total = Named("total", acc, Width());
  ir::Block body = {
      ir::LetIndex("left", ir::CallOf("min_index", {Width(), extent - loop})),
      ir::Mutable("total", part(0)), ForOtherTasks(Combine(acc, total, part(ir::IndexVar("task")))),
      ir::Do(step->Is(1) ? ir::CallOf("store_tail", {storage, Width()}, {at, total, Left()})
                         : ir::CallOf("store_strided_tail", {storage, Width()},
                                      {at, body_->Scalar(*step), total, Left()}))};
  ir::Block block = {ir::Loop(LoopName(VectorLoop()), 0, loop < extent, Width(), std::move(body))};
  for (int q = static_cast<int>(extents.size()) - 1; q >= 0; --q) {
    const int outer = static_cast<int>(nest_.outer.size()) + q;
    block = {{ir::For{.variable = LoopName(outer),
                      .first = 0,
                      .condition = LoopVar(outer) < extents[q],
                      .step = 1,
                      .body = std::move(block)}}};
  }
  return block;
}

ir::Function CpuAccumulators::Finish(const std::string& name) {
  ir::Block scopes;
  const ir::Value scratch = ir::Var("scratch", ir::BytesType(true));
  for (const Accumulator& acc : all_) {
    if (!acc.IsPrivate()) continue;
    const BufferId result = acc.reduction->results[0];
    interface_->MarkWritten(result);
    const ir::Type part = ir::PointerTo(acc.scalar(), true);
    body_->SetMember(acc.member);
    ir::Block scope = {
        {ir::BindPointer{"out", ir::PointerTo(ir::ScalarType(program_.buffers[result].dtype)),
                         interface_->Buffer(result)}},
        {ir::LocalFunction{.name = "part",
                           .parameters = {{"task", ir::kIndexType}},
                           .result = part,
                           .body = {{ir::Return{ir::ReinterpretAs(
                               part, scratch + ir::IndexVar("task") * ir::IndexVar("stride") +
                                         OffsetOf(acc))}}}}}};
    ir::Append(&scope, acc.IsColumns() ? FinishColumns(acc) : FinishTotal(acc));
    scopes.push_back({ir::Scope{std::move(scope)}});
  }
  ir::Function function{
      .name = name,
      .role = ir::Role::kFinish,
      .parameters = {
          {"args", ir::kArgumentsType}, {"tasks", ir::kIndexType}, {"stride", ir::kIndexType}}};
  function.body = {
      DeclareWidth(),
      ir::DeclareAll(scratch.type(),
                     {{"scratch", ir::CastTo(scratch.type(), ir::ScratchArgument())}})};
  for (size_t i = 0; i < interface_->launch().integers.size(); ++i) {
    function.body.push_back(interface_->BindInteger(static_cast<int>(i), true));
  }
  ir::Append(&function.body, scopes);
  return function;
}

}  // namespace tensord::compiler
