// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cuda/body.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "compiler/kernel_ir/text.h"
#include "compiler/schedule/cuda/register_resident.h"
#include "compiler/schedule/cuda/widths.h"

namespace tensord::compiler {
namespace {

// Whether a load can leave the elements as they lie in memory.
bool IsPlainLoad(const ir::Value& load) {
  const auto* call = ir::As<ir::Call>(load);
  return call->target == ir::Call::kPrelude &&
         (call->function == "load" || call->function == "load_evict_last");
}

// A plain load, which does.
ir::Value PackedLoad(const ir::Value& load) {
  const auto* call = ir::As<ir::Call>(load);
  return ir::CallOf(absl::StrCat(call->function, "_packed"), call->templates, call->operands);
}

}  // namespace

ir::Value TileNamed(size_t operand, DType storage) {
  return ir::Var(absl::StrCat("tile", operand), ir::PointerTo(ir::ScalarType(storage)));
}
std::string TileTypeName(size_t operand) { return absl::StrCat("Tile", operand); }

ir::Value VectorNumber() { return ir::IntVar("k"); }
ir::Value LaneOfGroup() { return ir::IntVar("lane"); }
ir::Value GroupSize() { return ir::IntVar("G"); }
ir::Value BlockSize() { return ir::IntVar("T"); }

CudaBody::CudaBody(const Program& program, const Nest& nest, KernelInterface* interface,
                   const CudaPlan& plan)
    : BodyLowering(program, nest, interface),
      plan_(plan),
      recomputed_(RecomputedLocals(nest, plan.register_vectors() > 0)),
      is_rare_(IsRare(nest)) {
  if (plan.register_vectors() > 0) {
    repeated_ = RepeatedLoads(nest);
    stored_ = ResultsReadBack(nest);
  }
  if (const auto* tiles = plan.As<CudaTiles>()) shared_bytes_ = tiles->shared_bytes;
}

// One thread stores, and may be ahead of others, which have yet to load what it overwrites.
void CudaBody::BeforeRowStore(BufferId buffer) {
  if (plan_.G() == 1 || !IsLoaded(nest(), buffer)) return;
  const std::vector<ir::TemplateArgument> sizes = {ir::Value(plan_.G()), ir::Value(plan_.groups())};
  Add(0, ir::Do(ir::CallOf("group_barrier", sizes, {})));
}

ir::Statement CudaBody::Once(ir::Statement statement) {
  if (plan_.G() == 1) return statement;
  return ir::When(LaneOfGroup() == 0, {std::move(statement)});
}

// ---- Values for later passes

int CudaBody::VectorsAtOnce() const {
  if (const auto* columns = plan_.As<CudaColumns>()) return columns->rows_in_flight;
  const bool scans = plan_.Is<CudaScanRows>() && plan_.register_vectors() == 0;
  return scans ? plan_.vectors_in_flight() : plan_.register_vectors();
}

ir::Value CudaBody::DeclareVectors(const std::string& name, const ir::Type& type) {
  Declare({ir::DeclareArray{.type = type, .arrays = {{name, VectorsAtOnce()}}}});
  return ir::Var(name, ir::PointerTo(type));
}

ir::Value CudaBody::RowArray(BufferId id) {
  auto [it, is_new] = row_arrays_.try_emplace(id);
  if (!is_new) return it->second;
  const std::string name = absl::StrCat("row", row_arrays_.size() - 1);
  const DType dtype = ComputeType(program().buffers[id].dtype);
  const ir::Type pointer = ir::PointerTo(ir::ScalarType(dtype));
  const Expr bytes = sym::Product(nest().inner) * ItemSize(dtype);
  if (plan_.register_vectors() > 0) {
    return it->second = DeclareVectors(name, ir::VectorType(dtype, ir::kWidth));
  }
  if (!plan_.loops_rows()) {
    const int row_bytes = static_cast<int>((*bytes.AsConstant() + 15) / 16 * 16);
    Declare({ir::BindShared{name, pointer, shared_bytes_, row_bytes}});
    shared_bytes_ += row_bytes;
  } else {
    // Each block has its own.
    const Expr rounded = sym::CeilDiv(bytes, Expr(64));
    const ir::Value offset = Extent(interface()->ReserveScratch(rounded * 64 * plan_.blocks));
    const ir::Value first = ir::ReinterpretAs(pointer, ir::ScratchArgument() + offset);
    const ir::Value elements = Scalar(rounded * (64 / ItemSize(dtype)));
    Declare(ir::DeclareAll(
        pointer, {{name, first + ir::CastTo(ir::kInt64Type, ir::IntVar("block")) * elements}}));
  }
  return it->second = ir::Var(name, pointer);
}

ir::Value CudaBody::ReadLocal(BufferId buffer) {
  if (plan_.register_vectors() == 0 && !plan_.is_interleaved()) {
    return BodyLowering::ReadLocal(buffer);
  }
  const ir::Value array = RowArray(buffer);
  if (plan_.register_vectors() > 0) return ir::At(array, VectorNumber());
  const std::vector<ir::TemplateArgument> types = {ir::Pointee(array.type()), Width()};
  const ir::Value at = array + InnerPosition();
  return tail() ? ir::CallOf("strided_tail", types, {at, GroupSize(), Left()})
                : ir::CallOf("strided", types, {at, GroupSize()});
}

ir::Statement CudaBody::WriteLocal(BufferId buffer, const ir::Value& value) {
  if (plan_.register_vectors() == 0 && !plan_.is_interleaved()) {
    return BodyLowering::WriteLocal(buffer, value);
  }
  const ir::Value array = RowArray(buffer);
  if (plan_.register_vectors() > 0) return ir::Set(ir::At(array, VectorNumber()), value);
  const std::vector<ir::TemplateArgument> types = {ir::Pointee(array.type()), Width()};
  const ir::Value at = array + InnerPosition();
  return ir::Do(
      tail() ? ir::CallOf("store_strided_masked", types, {at, GroupSize(), value, FirstLanes()})
             : ir::CallOf("store_strided", types, {at, GroupSize(), value}));
}

ir::Value CudaBody::CheckIndex(const IndexRule& rule, const ir::Value& index, const Expr& size,
                               const ir::Value& on) {
  std::vector<ir::Value> operands = {index, Extent(size)};
  if (on) operands.push_back(on);
  return ir::CallOf(rule.wraps ? "wrapped_index" : "checked_index", std::move(operands));
}

ir::Value CudaBody::CheckData(DataCheck check, const ir::Value& value, const ir::Value& on) {
  const std::string function = InfoOf(check).cuda_function;
  TENSORD_CHECK(!function.empty(), "a check that CUDA does not make");
  std::vector<ir::Value> operands = {value};
  if (on) operands.push_back(on);
  return ir::CallOf(function, std::move(operands));
}

// ---- Loads

ir::Value CudaBody::SpecialLoad(const Inst& inst, const ir::Value& address, const Expr& stride) {
  const auto* tiles = plan_.As<CudaTiles>();
  if (tiles == nullptr || inst.guard >= 0) return {};
  const std::vector<TileOperand>& operands = tiles->operands;
  const auto it = std::find_if(operands.begin(), operands.end(), [&](const TileOperand& operand) {
    return operand.buffer == inst.buffer && operand.index == inst.index;
  });
  if (it == operands.end()) return {};
  const size_t number = it - operands.begin();
  const ir::Value tile = TileNamed(number, inst.storage);
  const std::string type = TileTypeName(number);
  if (tile_fills_.try_emplace(number, TileFill{address, Scalar(stride)}).second) {
    const int bytes = tiles->along * tiles->across * static_cast<int>(ItemSize(inst.storage));
    Declare({ir::DeclareTile{type, inst.storage, tiles->along, tiles->across, it->run}});
    Declare({ir::BindShared{ir::As<ir::Variable>(tile)->name, tile.type(), it->offset, bytes}});
  }
  return ir::CallOfTile(type, "read", {Width()},
                        {tile, ir::IntVar("tile_row"), ir::IntVar("tile_column")},
                        ir::VectorType(ComputeType(inst.storage), ir::kWidth));
}

std::string CudaBody::RunLoad(const Inst& inst) const {
  const auto* rows = plan_.As<CudaRows>();
  const bool last = rows != nullptr && rows->evicts_loads_last && !IsWritten(nest(), inst.buffer);
  const std::string plain = last ? "load_evict_last" : "load";
  if (!plan_.is_unaligned() || IsRun(inst.index)) return plain;
  if (plan_.is_peeled() && !sym::ContainsKind(inst.index, sym::AtomKind::kIndirect)) {
    const Expr start = sym::Substitute(inst.index, {{VectorLoop(), Expr(0)}});
    const Expr apart = start - *StartOfStoredRow(nest(), plan_.width);
    if (sym::ExactDiv(apart, Expr(plan_.width))) return plain;
  }
  return "load_unaligned";
}

bool CudaBody::PairsAreAligned(const Expr& index) const {
  return PairAlignment(index, VectorLoop()) % plan_.width == 0;
}

bool CudaBody::IsPrefetched(const Inst& inst) const {
  const auto* sweep = plan_.As<CudaSweep>();
  return sweep != nullptr && sweep->prefetches && !tail() && inst.guard < 0 &&
         !IsWritten(nest(), inst.buffer) && DependsOnRow(nest(), inst.index);
}

// What is known of the row before its vectors says where, and whether, to load. An index that is no
// multiple of the vector loop is computed beside the vector that it is for.
bool CudaBody::LoadsFirst(const Inst& inst) {
  if (plan_.Is<CudaColumns>()) {
    return VectorsAtOnce() > 0 && inst.guard < 0 && !IsWritten(nest(), inst.buffer) &&
           sym::LinearCoefficient(inst.index, VectorLoop()) &&
           !sym::ContainsKind(inst.index, sym::AtomKind::kIndirect);
  }
  return plan_.loads_first() && !tail() && !IsWritten(nest(), inst.buffer) &&
         sym::LinearCoefficient(inst.index, VectorLoop()) &&
         LevelOf(sym::Substitute(inst.index, {{VectorLoop(), Expr(0)}})) == 0 &&
         (inst.guard < 0 ? !is_rare_ : Lower(inst.guard).level == 0);
}

ir::Value CudaBody::DefineScalarLoad(const Inst& inst, int level, const ir::Value& load) {
  if (level != 0 || !IsPrefetched(inst)) return BodyLowering::DefineScalarLoad(inst, level, load);
  auto [it, is_new] = present_.try_emplace({inst.buffer, inst.index});
  if (is_new) {
    const size_t number = present_.size() - 1;
    const ir::Type type = ir::PackedType(inst.storage, 1);
    const std::string prefetched = absl::StrCat("prefetched", number),
                      name = absl::StrCat("present", number);
    it->second = ir::Var(name, type);
    Declare({ir::DeclareArray{.type = type, .arrays = {{prefetched, {}}, {name, {}}}}});
    prefetch_.load_scalars.push_back(ir::Set(ir::Var(prefetched, type), PackedLoad(load)));
    prefetch_.take_scalars.push_back(ir::Set(it->second, ir::Var(prefetched, type)));
  }
  return Define(0, ir::CallOf("unpack", {ir::ScalarType(inst.storage), 1}, {it->second}));
}

ir::Value CudaBody::DefineLoad(const Inst& inst, const ir::Value& load) {
  const Access access(inst.buffer, inst.index);
  const bool is_plain = inst.guard < 0 && IsPlainLoad(load);
  if (is_plain && (present_.count(access) != 0 || (member().position <= 1 && IsPrefetched(inst)))) {
    return DefinePrefetched(inst, load);
  }
  if (LoadsFirst(inst)) return DefineLoadedFirst(inst, load, is_plain);
  // What a guard holds back is 0 there, which is not to be kept for those who load it without.
  if (inst.guard < 0 && repeated_.count(access) != 0) return DefineKept(access, load);
  return BodyLowering::DefineLoad(inst, load);
}

ir::Value CudaBody::DefinePrefetched(const Inst& inst, const ir::Value& load) {
  auto [it, is_new] = present_.try_emplace({inst.buffer, inst.index});
  if (is_new) {
    const size_t number = present_.size() - 1;
    const ir::Type type = ir::PackedType(inst.storage, ir::kWidth), array = ir::PointerTo(type);
    const std::string prefetched_name = absl::StrCat("prefetched", number),
                      name = absl::StrCat("present", number);
    const ir::Value count = plan_.register_vectors();
    const ir::Value prefetched = ir::At(ir::Var(prefetched_name, array), VectorNumber());
    it->second = ir::Var(name, array);
    Declare({ir::DeclareArray{.type = type, .arrays = {{prefetched_name, count}, {name, count}}}});
    prefetch_.load_vectors.push_back(ir::Set(prefetched, PackedLoad(load)));
    prefetch_.take_vectors.push_back(ir::Set(ir::At(it->second, VectorNumber()), prefetched));
  }
  return Define(vector_level(), ir::CallOf("unpack", {ir::ScalarType(inst.storage), Width()},
                                           {ir::At(it->second, VectorNumber())}));
}

ir::Value CudaBody::DefineLoadedFirst(const Inst& inst, const ir::Value& load, bool is_plain) {
  auto [it, is_new] = loaded_.try_emplace(ir::ToString(load));
  if (is_new) {
    // As they lie in memory, where they may: narrow floats take half as many registers so.
    it->second = DeclareVectors(absl::StrCat("loaded", loaded_.size() - 1),
                                is_plain ? ir::PackedType(inst.storage, ir::kWidth) : load.type());
    const bool found = inst.guard >= 0 || sym::ContainsKind(inst.index, sym::AtomKind::kIndirect);
    ir::Block& loads = found ? found_loads_ : first_loads_;
    loads.push_back(
        ir::Set(ir::At(it->second, VectorNumber()), is_plain ? PackedLoad(load) : load));
  }
  const ir::Value loaded = ir::At(it->second, VectorNumber());
  if (!is_plain) return Define(vector_level(), loaded);
  return Define(vector_level(),
                ir::CallOf("unpack", {ir::ScalarType(inst.storage), Width()}, {loaded}));
}

ir::Value CudaBody::DefineKept(const Access& access, const ir::Value& load) {
  auto [it, is_new] = kept_.try_emplace(access);
  auto& [array, position] = it->second;
  if (is_new) {
    array = DeclareVectors(absl::StrCat("kept", kept_.size() - 1), load.type());
    position = member().position;
  }
  const ir::Value kept = ir::At(array, VectorNumber());
  if (position != member().position) return Define(vector_level(), kept);
  const ir::Value name = Define(vector_level(), load);
  const ir::Statement keep = ir::Set(kept, name);
  const ir::Block& block = at(vector_level());
  const bool is_kept = std::any_of(block.begin(), block.end(), [&](const ir::Statement& other) {
    return std::holds_alternative<ir::Assign>(other.node) &&
           ir::ToString(ir::Block{other}) == ir::ToString(ir::Block{keep});
  });
  if (!is_kept) Add(vector_level(), keep);
  return name;
}

}  // namespace tensord::compiler
