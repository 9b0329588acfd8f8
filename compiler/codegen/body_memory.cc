// SPDX-License-Identifier: Apache-2.0
// Loads and stores of BodyLowering.
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "base/check.h"
#include "compiler/codegen/body.h"

namespace tensord::compiler {

namespace {

// What stores call that combine: of two values, and for lanes that may meet in an element.
struct CombiningStore {
  const char* combine;
  const char* scatter;
};

CombiningStore FunctionsOf(StoreMode mode) {
  switch (mode) {
    case StoreMode::kAtomicAdd:
      return {"add", "scatter_add"};
    case StoreMode::kAtomicMul:
      return {"mul", "scatter_mul"};
    case StoreMode::kAtomicMin:
      return {"minimum", "scatter_min"};
    case StoreMode::kAtomicMax:
      return {"maximum", "scatter_max"};
    case StoreMode::kAssign:
      break;
  }
  TENSORD_CHECK(false, "a store that combines nothing");
}

}  // namespace

// Where a store goes.
struct BodyLowering::Target {
  ir::Value pointer;
  const Expr& element;
  StoreMode mode;
  ir::Type storage;
  bool is_vector;
  std::optional<Expr> stride;  // of lanes; nothing where they do not lie evenly
  bool is_run;                 // lanes are neighbours

  ir::Value Lanes() const { return is_vector ? Width() : ir::Value(1); }
};

ir::Value BodyLowering::LanesInRange(const ir::Value& mask) const {
  if (!tail_) return mask;
  return mask ? mask & FirstLanes() : FirstLanes();
}

ir::Value BodyLowering::Pointer(BufferId id, bool writes) {
  used_buffers_[id] |= writes;
  if (writes) interface_->MarkWritten(id);
  return KernelInterface::PointerNamed(interface_->Buffer(id), program_.buffers[id].dtype, writes);
}

ir::Value BodyLowering::LoadNeighbours(const ir::Type& storage, const ir::Value& at) const {
  return tail_ ? ir::CallOf("load_tail", {storage, Width()}, {at, Left()})
               : ir::CallOf("load", {storage, Width()}, {at});
}

ir::Value BodyLowering::StoreNeighbours(const ir::Type& storage, const ir::Value& at,
                                        const ir::Value& value) const {
  return tail_ ? ir::CallOf("store_tail", {storage, Width()}, {at, value, Left()})
               : ir::CallOf("store", {storage, Width()}, {at, value});
}

ir::Value BodyLowering::ReadLocal(BufferId buffer) {
  const ir::Value array = RowArray(buffer);
  return LoadNeighbours(ir::Pointee(array.type()), array + InnerPosition());
}

ir::Statement BodyLowering::WriteLocal(BufferId buffer, const ir::Value& value) {
  const ir::Value array = RowArray(buffer);
  return ir::Do(StoreNeighbours(ir::Pointee(array.type()), array + InnerPosition(), value));
}

// ---- Loads

Lowered BodyLowering::LowerLoad(const Inst& inst) {
  if (auto it = row_values_.find(inst.buffer); it != row_values_.end()) return it->second;
  if (auto it = pass_values_.find(inst.buffer); it != pass_values_.end()) return it->second;
  const bool local = nest_.local.count(inst.buffer) != 0;
  if (local && IsRecomputed(inst.buffer)) return Recompute(inst.buffer);
  Lowered value;
  if (local || KeepsStored(inst.buffer)) {
    value.level = vector_level();
    value.value = Define(value.level, ReadLocal(inst.buffer));
    return value;
  }
  const ir::Value pointer = Pointer(inst.buffer, false);
  Lowered guard;
  value.level = LevelOf(inst.index);
  if (inst.guard >= 0) {
    guard = Lower(inst.guard);
    value.level = std::max(value.level, guard.level);
  }
  if (value.level == vector_level() && vector_level() > 0) {
    value.value = DefineLoad(inst, LoadVector(inst, pointer, guard));
    return value;
  }
  const ir::Type storage = ir::ScalarType(inst.storage);
  const ir::Value at = pointer + Scalar(inst.index);
  value.value =
      guard.value
          ? Define(value.level, ir::CallOf("load_masked", {storage, 1}, {at, Use(guard, 0)}))
          : DefineScalarLoad(inst, value.level, ir::CallOf("load", {storage, 1}, {at}));
  return value;
}

ir::Value BodyLowering::LoadVector(const Inst& inst, const ir::Value& pointer,
                                   const Lowered& guard) {
  const std::vector<ir::TemplateArgument> types = {ir::ScalarType(inst.storage), Width()};
  const bool guarded = static_cast<bool>(guard.value);
  const ir::Value mask = LanesInRange(guarded ? Use(guard, vector_level()) : ir::Value());
  const std::optional<Expr> stride = VectorStride(inst.index);
  if (!stride) {
    const ir::Value index = Vector(inst.index);
    return mask ? ir::CallOf("gather_masked", types, {pointer, index, mask})
                : ir::CallOf("gather", types, {pointer, index});
  }
  if (stride->Is(2) && !guarded) {
    if (const ir::Value of_pairs = LoadOfPairs(inst, pointer)) return of_pairs;
  }
  const ir::Value at = pointer + Scalar(inst.index);
  if (stride->Is(1) && !LaneStep() && (!guarded || LoadsAtOnce(inst.index))) {
    if (guarded) return ir::CallOf("load_masked", types, {at, mask});
    if (tail_) return ir::CallOf("load_tail", types, {at, Left()});
    return ir::CallOf(RunLoad(inst), types, {at});
  }
  if (const ir::Value special = SpecialLoad(inst, at, *stride)) return special;
  const ir::Value step = Step(*stride);
  if (guarded) return ir::CallOf("strided_masked", types, {at, step, mask});
  if (tail_) return ir::CallOf("strided_tail", types, {at, step, Left()});
  return ir::CallOf("strided", types, {at, step});
}

// Of neighbours in pairs there is one run of twice as many elements.
bool BodyLowering::IsPairIndex(const Expr& first) {
  const std::optional<Expr> stride = VectorStride(first);
  return stride && stride->Is(2) && !LaneStep() && !tail_ && sym::ExactDiv(first, Expr(2)) &&
         PairsAreAligned(first);
}

// Whether the element behind this one is there and wanted too, whatever the iteration.
bool BodyLowering::LoadsNext(const Inst& inst) const {
  const std::vector<Inst>& insts = member_->loops.block.insts;
  return std::any_of(insts.begin(), insts.end(), [&](const Inst& other) {
    return other.kind == InstKind::kLoad && other.buffer == inst.buffer && other.guard < 0 &&
           other.index == inst.index + 1;
  });
}

ir::Value BodyLowering::LoadOfPairs(const Inst& inst, const ir::Value& pointer) {
  const std::vector<Store>& stores = member_->loops.stores;
  const bool is_complex = program_.buffers[inst.buffer].is_complex;
  const bool in_pairs =
      is_complex || std::any_of(stores.begin(), stores.end(),
                                [&](const Store& s) { return SecondOfPair(s) != nullptr; });
  if (!in_pairs) return {};
  const bool is_even = sym::ExactDiv(inst.index, Expr(2)).has_value();
  // Behind the last even element there may be no memory.
  if (is_even && !is_complex && !LoadsNext(inst)) return {};
  const Expr first = is_even ? inst.index : inst.index - 1;
  if (!IsPairIndex(first)) return {};
  return ir::CallOf(is_even ? "load_even" : "load_odd", {ir::ScalarType(inst.storage), Width()},
                    {pointer + Scalar(first)});
}

Lowered BodyLowering::Recompute(BufferId buffer) {
  const NestMember* const reader = member_;
  for (const NestMember& writer : nest_.members) {
    for (const Store& store : writer.loops.stores) {
      if (store.buffer != buffer) continue;
      member_ = &writer;
      const Lowered value = AsVector(Lower(store.value));
      member_ = reader;
      return value;
    }
  }
  TENSORD_CHECK(false, "nothing stores a local buffer");
}

// ---- Stores

// The store behind this one, where it is of the next element under no other condition.
const Store* BodyLowering::SecondOfPair(const Store& store) const {
  const std::vector<Store>& stores = member_->loops.stores;
  const auto next = static_cast<size_t>(&store - stores.data()) + 1;
  if (next >= stores.size()) return nullptr;
  const Store& second = stores[next];
  const bool is_pair = second.buffer == store.buffer && store.guard < 0 && second.guard < 0 &&
                       store.mode == StoreMode::kAssign && second.mode == StoreMode::kAssign &&
                       sym::ExactDiv(store.index, Expr(2)) && second.index == store.index + 1;
  return is_pair ? &second : nullptr;
}

bool BodyLowering::StorePairs(const Store& first, const Store& second) {
  if (!member_->has_inner || vector_level() == 0 || !IsPairIndex(first.index)) return false;
  const int level = vector_level();
  const ir::Value even = Use(Lower(Unrounded(first)), level),
                  odd = Use(Lower(Unrounded(second)), level);
  const ir::Value at = Pointer(first.buffer, true) + Scalar(first.index);
  Add(level, ir::Do(ir::CallOf("store_pairs",
                               {ir::ScalarType(program_.buffers[first.buffer].dtype), Width()},
                               {at, even, odd})));
  return true;
}

void BodyLowering::LowerStores(const NestMember& member,
                               const std::function<bool(BufferId)>& keep_for_later_pass) {
  SetMember(&member);
  const std::vector<Store>& stores = member.loops.stores;
  for (size_t i = 0; i < stores.size(); ++i) {
    const Store* const second = SecondOfPair(stores[i]);
    if (second != nullptr && StorePairs(stores[i], *second)) {
      ++i;
      continue;
    }
    // It may read what the first store overwrites.
    if (second != nullptr) Lower(second->value);
    LowerStore(stores[i], keep_for_later_pass(stores[i].buffer));
  }
}

void BodyLowering::LowerStore(const Store& store, bool keep_for_later_pass) {
  const Lowered value = Lower(store.value);
  const bool local = nest_.local.count(store.buffer) != 0;
  if ((!member_->has_inner || vector_level() == 0) && store.mode == StoreMode::kAssign &&
      store.guard < 0) {
    row_values_[store.buffer] = Forwarded(store, value);
    if (!local) BeforeRowStore(store.buffer);
    StoreOfRow(store.buffer, store.index, value);
    return;
  }
  const int level = member_->has_inner ? vector_level() : 0;
  const ir::Value used = Use(value, level);
  if (level > 0 && store.mode == StoreMode::kAssign) {
    pass_values_[store.buffer] = AsVector(Forwarded(store, value));
  }
  if (local) {
    if (keep_for_later_pass && !IsRecomputed(store.buffer)) {
      Add(level, WriteLocal(store.buffer, used));
    }
    return;
  }
  if (keep_for_later_pass && KeepsStored(store.buffer)) {
    const DType storage = program_.buffers[store.buffer].dtype;
    const bool rounds = storage != ComputeType(storage);
    Add(level,
        WriteLocal(store.buffer,
                   rounds ? ir::CallOf("round_to", {ir::ScalarType(storage)}, {used}) : used));
  }
  const ir::Value mask = store.guard >= 0 ? Use(Lower(store.guard), level) : ir::Value();
  if (level == 0) BeforeRowStore(store.buffer);
  StoreAt(store.buffer, store.index, store.mode, Use(Lower(Unrounded(store)), level), mask, level);
}

void BodyLowering::LowerStoredValue(const Store& store) {
  pass_values_[store.buffer] = AsVector(Forwarded(store, Lower(store.value)));
}

Lowered BodyLowering::Forwarded(const Store& store, const Lowered& value) {
  const Inst& made_by = InstOf(store.value);
  const bool is_exact = (made_by.kind == InstKind::kRound || made_by.kind == InstKind::kLoad) &&
                        made_by.storage == program_.buffers[store.buffer].dtype;
  return is_exact ? value : Forwarded(store.buffer, value);
}

Lowered BodyLowering::Forwarded(BufferId buffer, Lowered value) {
  if (nest_.rounded.count(buffer) == 0) return value;
  const ir::Type storage = ir::ScalarType(program_.buffers[buffer].dtype);
  value.value = Define(value.level, ir::CallOf("round_to", {storage}, {Use(value, value.level)}));
  return value;
}

// Storing rounds by itself.
int BodyLowering::Unrounded(const Store& store) const {
  const Inst& value = InstOf(store.value);
  const bool rounds = store.mode == StoreMode::kAssign && value.kind == InstKind::kRound &&
                      value.storage == program_.buffers[store.buffer].dtype;
  return rounds ? value.args[0] : store.value;
}

void BodyLowering::StoreColumns(BufferId buffer, const Expr& index, const ir::Value& vector) {
  StoreAt(buffer, index, StoreMode::kAssign, vector, {}, vector_level());
}

void BodyLowering::StoreRowResult(BufferId buffer, const Expr& index, const Lowered& value) {
  row_values_[buffer] = Forwarded(buffer, value);
  StoreOfRow(buffer, index, value);
}

void BodyLowering::StoreOfRow(BufferId buffer, const Expr& index, const Lowered& value) {
  if (nest_.local.count(buffer) != 0) return;
  const ir::Value used = Use(value, 0), at = Scalar(index), pointer = Pointer(buffer, true);
  Add(0, Once(ir::Do(ir::CallOf("store", {ir::ScalarType(program_.buffers[buffer].dtype), 1},
                                {pointer + at, used}))));
}

void BodyLowering::StoreAt(BufferId buffer, const Expr& element, StoreMode mode,
                           const ir::Value& value, const ir::Value& mask, int level) {
  const ir::Value pointer = Pointer(buffer, true);
  const bool combines = mode != StoreMode::kAssign, vector = level > 0;
  const int index_level = LevelOf(element);
  const std::optional<Expr> stride = vector ? VectorStride(element) : std::nullopt;
  const Target to{.pointer = pointer,
                  .element = element,
                  .mode = mode,
                  .storage = ir::ScalarType(program_.buffers[buffer].dtype),
                  .is_vector = vector,
                  .stride = stride,
                  .is_run = stride && stride->Is(1) && !LaneStep()};
  ir::Value call;
  if (combines && AddsAreAtomic()) {
    TENSORD_CHECK(mode == StoreMode::kAtomicAdd, "a store that only sums may do here");
    call = AtomicAdd(to, value, mask);
  } else if (!vector && mask && !combines) {
    call = ir::CallOf("store_masked", {to.storage, 1}, {pointer + Scalar(element), value, mask});
  } else if (!vector || (to.is_run && !mask)) {
    TENSORD_CHECK(vector || index_level == 0);
    call = StoreRun(to, value);
  } else {
    call = StoreScattered(to, value, LanesInRange(mask));
  }
  Add(level, vector ? ir::Do(call) : Once(ir::Do(call)));
}

// What other units may do to the same elements at the same time.
ir::Value BodyLowering::AtomicAdd(const Target& to, const ir::Value& value, ir::Value mask) {
  if (to.is_vector) mask = LanesInRange(mask);
  if (!mask) mask = ir::CallOf("broadcast", {to.Lanes()}, {ir::Condition(true)});
  if (to.is_run) {
    return ir::CallOf("scatter_add_run", {to.storage, Width()},
                      {to.pointer + Scalar(to.element), value, mask});
  }
  const ir::Value index = to.is_vector
                              ? Vector(to.element)
                              : ir::CallOf("broadcast", {ir::Value(1)},
                                           {ir::ConvertTo(ir::kInt64Type, Scalar(to.element))});
  return ir::CallOf("scatter_add", {to.storage, to.Lanes()}, {to.pointer, index, value, mask});
}

// One element, or neighbours that all take part but for those beyond a tail.
ir::Value BodyLowering::StoreRun(const Target& to, ir::Value value) {
  const ir::Value at = to.pointer + Scalar(to.element);
  const std::vector<ir::TemplateArgument> types = {to.storage, 1};
  if (to.mode != StoreMode::kAssign) {
    const ir::Value old =
        to.is_vector ? LoadNeighbours(to.storage, at) : ir::CallOf("load", types, {at});
    value = ir::CallOf(FunctionsOf(to.mode).combine, {old, value});
  }
  return to.is_vector ? StoreNeighbours(to.storage, at, value)
                      : ir::CallOf("store", types, {at, value});
}

// Lanes that do not lie together, or of which not all take part.
ir::Value BodyLowering::StoreScattered(const Target& to, const ir::Value& value, ir::Value mask) {
  const std::vector<ir::TemplateArgument> types = {to.storage, Width()};
  const bool combines = to.mode != StoreMode::kAssign;
  if (to.stride && !combines) {
    const ir::Value at = to.pointer + Scalar(to.element);
    if (to.is_run) return ir::CallOf("store_masked", types, {at, value, mask});
    const ir::Value step = Step(*to.stride);
    return mask ? ir::CallOf("store_strided_masked", types, {at, step, value, mask})
                : ir::CallOf("store_strided", types, {at, step, value});
  }
  const ir::Value index = Vector(to.element);
  if (!mask) mask = ir::CallOf("broadcast", {Width()}, {ir::Condition(true)});
  return ir::CallOf(combines ? FunctionsOf(to.mode).scatter : "scatter_masked", types,
                    {to.pointer, index, value, mask});
}

}  // namespace tensord::compiler
