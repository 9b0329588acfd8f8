// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cuda/accumulators.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "compiler/codegen/reductions.h"
#include "compiler/schedule/cuda/widths.h"

namespace tensord::compiler {
namespace {

// A loop over the vectors that a thread has in registers.
ir::Statement ForVectors(int count, ir::Block body) {
  return {ir::For{.variable = "k",
                  .type = ir::kIntType,
                  .first = 0,
                  .condition = VectorNumber() < count,
                  .step = 1,
                  .body = std::move(body),
                  .unroll = ir::For::kWhole}};
}

}  // namespace

ir::Value BlockNumber() { return ir::IntVar("block"); }
ir::Value Blocks() { return ir::IntVar("blocks"); }
ir::Value GroupMemory() { return ir::Var("shared", ir::kGroupMemoryType); }
ir::Value CopyNumber() { return ir::IntVar("copy"); }

CudaAccumulators::CudaAccumulators(const Program& program, const Nest& nest, const CudaPlan& plan,
                                   CudaBody* body, KernelInterface* interface)
    : Accumulators(program, nest, body, interface), plan_(plan) {
  for (Accumulator& acc : all_) {
    if (acc.IsPrivate()) {
      const Expr count = acc.IsColumns() ? ColumnStride() : Expr(1);
      acc.offset = interface_->ReserveScratch(count * StateBytes(acc) * Copies());
    } else if (plan_.Is<CudaSplit>()) {
      acc.offset = interface_->ReserveScratch(plan_.blocks * StateBytes(acc));
    } else if (const auto* groups = plan_.As<CudaColumnGroups>();
               groups != nullptr && groups->parts > 1) {
      const int64_t bytes = groups->columns * plan_.width * StateBytes(acc);
      acc.offset = interface_->ReserveScratch(plan_.blocks * bytes);
    }
  }
}

ir::Type CudaAccumulators::SavedType(const Accumulator& acc) {
  return StateOf(acc.kind()) == nullptr ? acc.scalar() : Start(acc, 1).type();
}

std::vector<std::string> CudaAccumulators::ColumnParts(ReduceKind kind) {
  if (kind == ReduceKind::kWelford) return {"mean", "m2", "weight"};
  return {""};
}

ir::Value CudaAccumulators::CombineGroup(const Accumulator& acc, const ir::Value& value, int group,
                                         const ir::Value& shared) const {
  return ir::CallOf(GroupFunction(acc.kind()), {ir::Value(group)},
                    {value, HasParts(group) ? ir::CallOf("groups_of", {shared}) : shared});
}

ir::Block CudaAccumulators::DeclareRow(int position) const {
  ir::Block block;
  for (const Accumulator& acc : all_) {
    if (acc.member->position != position || acc.IsPrivate()) continue;
    block.push_back(ir::Mutable(acc.name, Start(acc, Lanes())));
  }
  return block;
}

ir::Value CudaAccumulators::AddressOf(const Accumulator& acc) const {
  const bool in_registers = plan_.register_vectors() > 0 || StateOf(acc.kind()) != nullptr;
  if (!acc.IsPrivate() || !acc.IsColumns() || in_registers) return {};
  return ir::Var(acc.name, ir::PointerTo(acc.scalar())) + body_->InnerPosition();
}

ir::Value CudaAccumulators::VariableOf(const Accumulator& acc, int /*copy*/) const {
  const bool in_array = acc.IsPrivate() && (StateOf(acc.kind()) != nullptr || acc.IsColumns());
  const ir::Type type = Start(acc, Lanes()).type();
  return in_array ? ir::At(ir::Var(acc.name, ir::PointerTo(type)), VectorNumber())
                  : ir::Var(acc.name, type);
}

ir::Value CudaAccumulators::AddTail(const StateFunctions& state, const ir::Value& target,
                                    const ir::Value& value, const ir::Value& position) const {
  std::vector<ir::Value> operands = {target, value, FirstLanes()};
  if (position) operands.push_back(position);
  return ir::CallOf(absl::StrCat(state.name, "_add_masked"), std::move(operands));
}

std::vector<const Accumulator*> CudaAccumulators::JointSums(int position) const {
  std::vector<const Accumulator*> joint;
  for (const std::vector<int>& sums : plan_.group().joint_sums) {
    for (const int number : sums) {
      if (all_[number].member->position == position) joint.push_back(&all_[number]);
    }
  }
  return joint;
}

void CudaAccumulators::JointSumResults(const std::vector<const Accumulator*>& sums) {
  std::vector<ir::Value> lanes;
  for (const Accumulator* acc : sums) {
    lanes.push_back(ir::CallOf("reduce_sum", {Named(acc->name, *acc, Lanes())}));
  }
  const ir::Type type = ir::VectorType(kFloat32, static_cast<int>(sums.size()));
  const ir::Value all = body_->Define(0, ir::CallOf("group_add_each", {ir::Value(plan_.G())},
                                                    {ir::VectorOf(type, std::move(lanes)),
                                                     ir::CallOf("groups_of", {GroupMemory()})}));
  for (size_t i = 0; i < sums.size(); ++i) {
    const ir::Value sum = ir::LaneOf(all, static_cast<int>(i));
    StoreResults(*sums[i], body_->Define(0, ir::CallOf("broadcast", {ir::Value(1)}, {sum})), body_);
  }
}

void CudaAccumulators::RowResults(int position) {
  const std::vector<const Accumulator*> sums = JointSums(position);
  if (!sums.empty()) JointSumResults(sums);
  for (const Accumulator& acc : all_) {
    if (acc.member->position != position || acc.IsPrivate()) continue;
    if (std::count(sums.begin(), sums.end(), &acc) > 0) continue;
    const ir::Value mine = ir::CallOf(ReduceFunction(acc.kind()), {Named(acc.name, acc, Lanes())});
    ir::Value group = CombineGroup(acc, mine, plan_.G(), GroupMemory());
    if (plan_.Is<CudaSplit>()) {
      const ir::Value value = body_->Define(0, group);
      const ir::Value saved = ir::At(SavedAt(acc, body_), BlockNumber());
      body_->Add(0, ir::When(LaneOfGroup() == 0, {ir::Set(saved, value)}));
      continue;
    }
    if (StateOf(acc.kind()) == nullptr) group = ir::CallOf("broadcast", {ir::Value(1)}, {group});
    StoreResults(acc, body_->Define(0, group), body_);
  }
}

void CudaAccumulators::ColumnResults() {
  for (const Accumulator& acc : all_) {
    body_->SetMember(acc.member);
    const ir::Value value = Named(acc.name, acc, Lanes());
    if (HasVectorLoop()) {
      body_->StoreColumns(acc.reduction->results[0], acc.reduction->indices[0], value);
    } else {
      StoreResults(acc, value, body_);
    }
  }
}

// ---- What outlives units

ir::Value CudaAccumulators::SavedAt(const Accumulator& acc, BodyLowering* body) const {
  return ir::ReinterpretAs(ir::PointerTo(SavedType(acc)),
                           ir::ScratchArgument() + body->Extent(*acc.offset));
}

Expr CudaAccumulators::ColumnStride() const {
  return sym::CeilDiv(sym::Product(nest_.inner), Expr(kWidestVector)) * kWidestVector;
}

ir::Value CudaAccumulators::ColumnAt(const Accumulator& acc, size_t part,
                                     BodyLowering* body) const {
  const Expr count = ColumnStride();
  const ir::Value stride = body->Extent(count), offset = body->Extent(*acc.offset);
  const ir::Value first =
      ir::ReinterpretAs(ir::PointerTo(acc.scalar()), ir::ScratchArgument() + offset) +
      ir::CastTo(ir::kInt64Type, CopyNumber()) * stride;
  if (part == 0) return first;
  return first + ir::Value(static_cast<int>(part)) *
                     ir::CastTo(ir::kInt64Type, body->Extent(Copies() * count));
}

ir::Block CudaAccumulators::DeclarePrivate() {
  ir::Block block;
  for (const Accumulator& acc : all_) {
    if (!acc.IsPrivate()) continue;
    if (!acc.IsColumns()) {
      const ir::Value lanes = acc.member->has_inner ? Lanes() : ir::Value(1);
      block.push_back(ir::Mutable(acc.name, Start(acc, lanes)));
      continue;
    }
    const ir::Value start = Start(acc, Width());
    if (plan_.register_vectors() > 0) {
      const ir::Value array = ir::Var(acc.name, ir::PointerTo(start.type()));
      block.push_back(
          {ir::DeclareArray{.like = start, .arrays = {{acc.name, plan_.register_vectors()}}}});
      block.push_back(
          ForVectors(plan_.register_vectors(), {ir::Set(ir::At(array, VectorNumber()), start)}));
      continue;
    }
    const ir::Type pointer = ir::PointerTo(acc.scalar());
    const ir::Value stride = body_->Extent(ColumnStride()), saved = SavedAt(acc, body_);
    const ir::Value q = ir::IndexVar("q");
    const ir::Value store = ir::CallOf("store", {acc.scalar(), Width()},
                                       {ir::Var(acc.name, pointer) + q * Width(), start});
    block.push_back(ir::DeclareAll(
        pointer, {{acc.name, saved + ir::CastTo(ir::kInt64Type, BlockNumber()) * stride}}));
    block.push_back({ir::For{.variable = "q",
                             .first = LaneOfGroup(),
                             .condition = q < ir::IndexVar("vectors"),
                             .step = GroupSize(),
                             .body = {ir::Do(store)}}});
  }
  return block;
}

ir::Block CudaAccumulators::SavePrivate() {
  ir::Block block;
  for (const Accumulator& acc : all_) {
    if (!acc.IsPrivate()) continue;
    if (!acc.IsColumns()) {
      ir::Append(&block, SaveTotal(acc));
    } else if (plan_.register_vectors() > 0) {  // else it lies there
      ir::Append(&block, SaveColumns(acc));
    }
  }
  return block;
}

ir::Block CudaAccumulators::SaveTotal(const Accumulator& acc) {
  const ir::Value lanes = acc.member->has_inner ? Lanes() : ir::Value(1);
  ir::Value value = ir::CallOf(ReduceFunction(acc.kind()), {Named(acc.name, acc, lanes)});
  if (!acc.member->has_inner && plan_.G() > 1) {
    // Every thread of a group has the rows' value.
    value = ir::Choose(LaneOfGroup() == 0, value, IdentityOf(acc.kind(), acc.dtype));
  }
  const ir::Value total = CombineGroup(acc, value, plan_.threads, GroupMemory());
  const ir::Value saved = ir::At(SavedAt(acc, body_), CopyNumber());
  return {
      {ir::Scope{{ir::Let("total", total),
                  ir::When(ir::Thread() == 0, {ir::Set(saved, ir::Var("total", total.type()))})}}}};
}

ir::Block CudaAccumulators::SaveColumns(const Accumulator& acc) {
  ir::Block block;
  const ir::Value count = body_->Extent(sym::Product(nest_.inner));
  const ir::Value array = ir::Var(acc.name, ir::PointerTo(Start(acc, Width()).type()));
  if (plan_.groups() > 1) {
    block.push_back(ir::Do(ir::CallOf(
        "combine_groups", {GroupSize(), BlockSize(), Sweep().combined_vectors.at(acc.number)},
        {array, ir::CombinerOf(CombineFunction(acc.kind())), ir::Var("tile", ir::BytesType())})));
  }
  const bool interleaved = plan_.is_interleaved();
  const ir::Value column = ir::IndexVar("column"), q = ir::IndexVar("q"),
                  first = ir::IndexVar("first_vector"), k = VectorNumber();
  ir::Block stores;
  const std::vector<std::string> parts = ColumnParts(acc.kind());
  for (size_t part = 0; part < parts.size(); ++part) {
    const std::vector<ir::TemplateArgument> types = {acc.scalar(), Width()};
    const ir::Value at = ColumnAt(acc, part, body_), element = ir::At(array, k);
    const ir::Value value = parts[part].empty() ? element : ir::FieldOf(element, parts[part]);
    ir::Value store;
    if (interleaved) {
      const ir::Value left = (count - column + GroupSize() - 1) / GroupSize();
      store = ir::CallOf(
          "store_strided_masked", types,
          {at + column, GroupSize(), value, ir::CallOf("mask_first", {Width()}, {left})});
    } else if (plan_.is_partial()) {
      const ir::Value left = ir::CallOf("min_index", {Width(), count - q * Width()});
      store = ir::CallOf("store_tail", types, {at + q * Width(), value, left});
    } else {
      store = ir::CallOf("store", types, {at + q * Width(), value});
    }
    stores.push_back(ir::Do(store));
  }
  ir::Value exists = interleaved ? column < count : q < ir::IndexVar("vectors");
  if (plan_.groups() > 1) exists = ir::And(ir::Thread() < GroupSize(), exists);
  const ir::Statement place =
      interleaved ? ir::LetIndex("column", (first + k * GroupSize()) * Width() + LaneOfGroup())
                  : ir::LetIndex("q", first + LaneOfGroup() + k * GroupSize());
  block.push_back(
      ForVectors(plan_.register_vectors(), {place, ir::When(exists, std::move(stores))}));
  return block;
}

}  // namespace tensord::compiler
