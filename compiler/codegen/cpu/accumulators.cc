// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cpu/accumulators.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "compiler/codegen/cpu/body.h"
#include "compiler/codegen/reductions.h"
#include "compiler/schedule/cpu/chains.h"

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

// What is gathered of parts.
std::string WholeOf(const std::string& name) { return absl::StrCat("whole_", name); }

}  // namespace

CpuAccumulators::CpuAccumulators(const Program& program, const Nest& nest, const CpuPlan& plan,
                                 BodyLowering* body, KernelInterface* interface)
    : Accumulators(program, nest, body, interface),
      plan_(plan),
      offsets_(all_.size()),
      part_offsets_(all_.size()) {
  for (size_t i = 0; i < all_.size(); ++i) {
    const Accumulator& acc = all_[i];
    if (!acc.IsPrivate()) continue;
    const Expr count = acc.IsColumns() ? sym::Product(nest_.inner) : Expr(1);
    const Expr bytes = count * ItemSize(ComputeType(acc.dtype));
    offsets_[i] = body_->Scalar(interface_->ReserveScratch(bytes));
    if (acc.IsColumns() && HasPartsOfUnits(acc)) {
      part_offsets_[i] = body_->Scalar(interface_->ReserveScratch(bytes));
    }
  }
}

bool CpuAccumulators::HasParts(const Accumulator& acc) const {
  return acc.member->reduces_inner && HasRoundings(acc) &&
         plan_.chains.passes.count(acc.member->position) != 0;
}

bool CpuAccumulators::HasPartsOfUnits(const Accumulator& acc) const {
  return acc.IsPrivate() && HasRoundings(acc) && plan_.chains.units > 0;
}

std::string CpuAccumulators::NameOfPass(const Accumulator& acc) const {
  return HasParts(acc) ? WholeOf(acc.name) : acc.name;
}

std::string CpuAccumulators::NameOfTask(const Accumulator& acc) const {
  return HasPartsOfUnits(acc) ? WholeOf(NameOverUnits(acc)) : NameOverUnits(acc);
}

std::string CpuAccumulators::NameOverUnits(const Accumulator& acc) {
  const bool has_own_total = !acc.IsColumns() && acc.member->has_inner;
  return has_own_total ? absl::StrCat("total_", acc.name) : acc.name;
}

bool CpuAccumulators::HasPrivate() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Accumulator& acc) { return acc.IsPrivate(); });
}

std::string CpuAccumulators::NameOf(const Accumulator& acc, int copy) {
  return copy == 0 ? acc.name : absl::StrCat(acc.name, "_", copy);
}

ir::Value CpuAccumulators::Array(const Accumulator& acc, const std::string& name) {
  return ir::Var(name, ir::PointerTo(acc.scalar()));
}

const ir::Value& CpuAccumulators::OffsetOf(const Accumulator& acc) const {
  return offsets_[&acc - all_.data()];
}

ir::Block CpuAccumulators::DeclareCopies(const Accumulator& acc, int copies) const {
  ir::Block block;
  for (int copy = 0; copy < copies; ++copy) {
    block.push_back(ir::Mutable(NameOf(acc, copy), Start(acc, Lanes())));
  }
  return block;
}

ir::Block CpuAccumulators::DeclareColumns(const Accumulator& acc, const std::string& name) const {
  const int64_t columns = plan_.As<CpuColumnBlocks>()->columns;
  return {{ir::DeclareArray{
              .type = acc.scalar(), .arrays = {{name, columns}}, .alignment = kVectorBytes}},
          StartColumns(acc, name, columns)};
}

ir::Block CpuAccumulators::MergeCopies(const Accumulator& acc, int copies) const {
  ir::Block block;
  for (int copy = 1; copy < copies; ++copy) {
    block.push_back(
        Combine(acc, Named(acc.name, acc, Lanes()), Named(NameOf(acc, copy), acc, Lanes())));
  }
  return block;
}

ir::Block CpuAccumulators::DeclareRow(int position, int copies) const {
  ir::Block block;
  const auto declare = [&](const Accumulator& acc) {
    if (!HasParts(acc)) {
      ir::Append(&block, DeclareCopies(acc, copies));
    } else {
      block.push_back(ir::Mutable(WholeOf(acc.name), Start(acc, Lanes())));
    }
  };
  for (const Accumulator& acc : all_) {
    if (acc.member->position != position || acc.IsPrivate()) continue;
    if (IsBlocked()) {
      ir::Append(&block, DeclareColumns(acc, NameOfPass(acc)));
    } else {
      declare(acc);
    }
  }
  // Full reductions gather a unit's share apart, so that no long chain of additions builds up.
  for (const Accumulator& acc : all_) {
    if (acc.member->position == position && acc.IsPrivate() && !acc.IsColumns()) declare(acc);
  }
  return block;
}

ir::Block CpuAccumulators::BeginPart(int position, int copies) const {
  ir::Block block;
  for (const Accumulator& acc : all_) {
    if (acc.member->position != position || !HasParts(acc)) continue;
    ir::Append(&block, IsBlocked() ? DeclareColumns(acc, acc.name) : DeclareCopies(acc, copies));
  }
  return block;
}

ir::Block CpuAccumulators::AddPart(int position, int copies) const {
  ir::Block block;
  for (const Accumulator& acc : all_) {
    if (acc.member->position != position || !HasParts(acc)) continue;
    if (IsBlocked()) {
      block.push_back(AddColumns(acc, plan_.As<CpuColumnBlocks>()->columns, false));
      continue;
    }
    ir::Append(&block, MergeCopies(acc, copies));
    block.push_back(
        Combine(acc, Named(WholeOf(acc.name), acc, Lanes()), Named(acc.name, acc, Lanes())));
  }
  return block;
}

ir::Value CpuAccumulators::AddressOf(const Accumulator& acc) const {
  if (IsBlocked()) return Array(acc, acc.name) + (LoopVar(VectorLoop()) - ir::IndexVar("first"));
  return acc.IsPrivate() && acc.IsColumns() ? Array(acc, acc.name) + body_->InnerPosition()
                                            : ir::Value();
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
  const auto merged = [&](const Accumulator& acc) {
    if (!HasParts(acc)) {
      for (ir::Statement& merge : MergeCopies(acc, copies)) body_->Add(0, std::move(merge));
    }
    return Named(NameOfPass(acc), acc, Lanes());
  };
  for (const Accumulator& acc : all_) {
    if (acc.member->position != position || !acc.IsPrivate() || acc.IsColumns()) continue;
    const ir::Value of_pass = merged(acc);
    body_->Add(0, Combine(acc, Named(NameOverUnits(acc), acc, Lanes()), of_pass));
  }
  if (IsBlocked()) return;
  for (const Accumulator& acc : all_) {
    if (acc.member->position != position || acc.IsPrivate()) continue;
    const ir::Value of_pass = merged(acc);
    body_->SetMember(acc.member);
    const ir::Value reduced = ir::CallOf(ReduceFunction(acc.kind()), {of_pass});
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
    const ir::Value element =
        ir::At(Array(acc, NameOfPass(acc)), LoopVar(loop) - ir::IndexVar("first"));
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
    const std::string name = NameOfTask(acc);
    if (!acc.IsColumns()) {
      block.push_back(ir::Mutable(name, Start(acc, LanesOverUnits(acc))));
      continue;
    }
    const ir::Type type = ir::PointerTo(acc.scalar());
    const auto declare = [&](const std::string& array, const ir::Value& offset) {
      const ir::Value at = ir::Var("scratch", ir::BytesType()) + offset;
      block.push_back(ir::DeclareAll(type, {{array, ir::ReinterpretAs(type, at)}}));
    };
    declare(name, OffsetOf(acc));
    if (HasPartsOfUnits(acc)) declare(acc.name, part_offsets_[&acc - all_.data()]);
    block.push_back(StartColumns(acc, name, ColumnsOfTask()));
  }
  return block;
}

ir::Statement CpuAccumulators::StartColumns(const Accumulator& acc, const std::string& name,
                                            const ir::Value& count) {
  const ir::Value c = ir::IndexVar("c");
  return {
      ir::For{.variable = "c",
              .first = 0,
              .condition = c < count,
              .step = 1,
              .body = {ir::Set(ir::At(Array(acc, name), c), IdentityOf(acc.kind(), acc.dtype))}}};
}

ir::Statement CpuAccumulators::AddColumns(const Accumulator& acc, const ir::Value& count,
                                          bool has_tail) {
  const ir::Value c = ir::IndexVar("c"), whole = Array(acc, WholeOf(acc.name)) + c;
  const std::vector<ir::TemplateArgument> types = {acc.scalar(), Width()};
  const auto load = [&](const ir::Value& at) {
    return has_tail ? ir::CallOf("load_tail", types, {at, Left()})
                    : ir::CallOf("load", types, {at});
  };
  const ir::Value sum =
      ir::CallOf(CombineFunction(acc.kind()), {load(whole), load(Array(acc, acc.name) + c)});
  ir::Block body;
  if (has_tail) {
    body = {ir::LetIndex("left", ir::CallOf("min_index", {Width(), count - c})),
            ir::Do(ir::CallOf("store_tail", types, {whole, sum, Left()}))};
  } else {
    body = {ir::Do(ir::CallOf("store", types, {whole, sum}))};
  }
  return ir::Loop("c", 0, c < count, Width(), std::move(body));
}

ir::Block CpuAccumulators::BeginUnits() const {
  ir::Block block;
  for (const Accumulator& acc : all_) {
    if (!HasPartsOfUnits(acc)) continue;
    block.push_back(acc.IsColumns()
                        ? StartColumns(acc, acc.name, ColumnsOfTask())
                        : ir::Mutable(NameOverUnits(acc), Start(acc, LanesOverUnits(acc))));
  }
  return block;
}

ir::Block CpuAccumulators::AddUnits() const {
  ir::Block block;
  for (const Accumulator& acc : all_) {
    if (!HasPartsOfUnits(acc)) continue;
    const ir::Value lanes = LanesOverUnits(acc);
    block.push_back(acc.IsColumns() ? AddColumns(acc, ColumnsOfTask(), true)
                                    : Combine(acc, Named(NameOfTask(acc), acc, lanes),
                                              Named(NameOverUnits(acc), acc, lanes)));
  }
  return block;
}

ir::Block CpuAccumulators::SavePrivate() const {
  ir::Block block;
  for (const Accumulator& acc : all_) {
    if (!acc.IsPrivate() || acc.IsColumns()) continue;
    const ir::Value of_task = Named(NameOfTask(acc), acc, LanesOverUnits(acc));
    const ir::Value value = acc.member->has_inner
                                ? ir::CallOf(ReduceFunction(acc.kind()), {of_task})
                                : ir::CallOf("get", {of_task, 0});
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
    function.body.push_back(interface_->BindInteger(static_cast<int>(i)));
  }
  ir::Append(&function.body, scopes);
  return function;
}

}  // namespace tensord::compiler
