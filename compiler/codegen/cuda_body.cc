#include "compiler/codegen/cuda_body.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>

#include "compiler/codegen/cpp_text.h"
#include "compiler/schedule/cuda/register_resident.h"
#include "compiler/schedule/cuda/widths.h"

namespace tensord::compiler {
namespace {

// Loads that can leave the elements as they lie in memory.
bool IsPlainLoad(std::string_view load) {
  return load.rfind("tk::load<", 0) == 0 || load.rfind("tk::load_evict_last<", 0) == 0;
}

// A plain load, which does.
std::string PackedLoad(const std::string& load) {
  const size_t name = load.find('<');
  return absl::StrCat(load.substr(0, name), "_packed", load.substr(name));
}

}  // namespace

CudaBody::CudaBody(const Program& program, const Nest& nest, KernelInterface* interface,
                   const CudaPlan& plan)
    : BodyEmitter(program, nest, interface),
      plan_(plan),
      again_(RecomputedLocals(nest, plan.register_vectors() > 0)),
      is_rare_(IsRare(nest)) {
  if (plan.register_vectors() > 0) {
    repeated_ = RepeatedLoads(nest);
    stored_ = ResultsReadBack(nest);
  }
  if (const auto* tiles = plan.As<CudaTiles>()) shared_bytes_ = tiles->shared_bytes;
}

std::string CudaBody::RowArray(BufferId id) {
  auto [it, is_new] = row_arrays_.try_emplace(id);
  if (!is_new) return it->second;
  it->second = absl::StrCat("row", row_arrays_.size() - 1);
  const DType dtype = ComputeType(program().buffers[id].dtype);
  const std::string type = ComputeTypeText(dtype);
  const Expr bytes = sym::Product(nest().inner) * ItemSize(dtype);
  if (plan_.register_vectors() > 0) {
    absl::StrAppend(array_declarations(), "  tk::Vec<", type, ", W> ", it->second, "[",
                    plan_.register_vectors(), "];\n");
  } else if (!plan_.loops_rows()) {
    absl::StrAppend(array_declarations(), "  ", type, "* const ", it->second,
                    " = reinterpret_cast<", type, "*>(shared_rows + ", shared_bytes_, ");\n");
    shared_bytes_ += static_cast<int>((*bytes.AsConstant() + 15) / 16 * 16);
  } else {
    // Each block has its own; `bytes` of one block.
    const std::string offset =
        ExtentText(interface()->ReserveScratch(sym::CeilDiv(bytes, Expr(64)) * 64 * plan_.blocks));
    absl::StrAppend(array_declarations(), "  ", type, "* const ", it->second,
                    " = reinterpret_cast<", type, "*>(args.scratch + ", offset,
                    ") + static_cast<int64_t>(block) * (",
                    ScalarText(sym::CeilDiv(bytes, Expr(64)) * (64 / ItemSize(dtype))), ");\n");
  }
  return it->second;
}

std::string CudaBody::ReadLocal(BufferId buffer) {
  const std::string array = RowArray(buffer);
  if (plan_.register_vectors() > 0) return absl::StrCat(array, "[k]");
  const std::string type = ComputeTypeText(program().buffers[buffer].dtype);
  if (plan_.is_interleaved()) {
    return absl::StrCat("tk::strided", tail() ? "_tail" : "", "<", type, ", W>(", array, " + ",
                        InnerPosition(), ", G", tail() ? ", left)" : ")");
  }
  return absl::StrCat("tk::load", tail() ? "_tail" : "", "<", type, ", W>(", array, " + ",
                      InnerPosition(), tail() ? ", left)" : ")");
}

std::string CudaBody::WriteLocal(BufferId buffer, const std::string& value) {
  const std::string array = RowArray(buffer);
  if (plan_.register_vectors() > 0) return absl::StrCat(array, "[k] = ", value, ";");
  const std::string type = ComputeTypeText(program().buffers[buffer].dtype);
  if (plan_.is_interleaved()) {
    return absl::StrCat("tk::store_strided", tail() ? "_masked" : "", "<", type, ", W>(", array,
                        " + ", InnerPosition(), ", G, ", value,
                        tail() ? ", tk::mask_first<W>(left));" : ");");
  }
  return absl::StrCat("tk::store", tail() ? "_tail" : "", "<", type, ", W>(", array, " + ",
                      InnerPosition(), ", ", value, tail() ? ", left);" : ");");
}

std::string CudaBody::SpecialLoad(const Inst& inst, const std::string& address,
                                  const Expr& stride) {
  const auto* tiles = plan_.As<CudaTiles>();
  if (tiles == nullptr || inst.guard >= 0) return "";
  const std::vector<TileOperand>& operands = tiles->operands;
  const auto it = std::find_if(operands.begin(), operands.end(), [&](const TileOperand& operand) {
    return operand.buffer == inst.buffer && operand.index == inst.index;
  });
  if (it == operands.end()) return "";
  const size_t number = it - operands.begin();
  const std::string type = StorageType(inst.storage);
  if (tile_fills_.try_emplace(number, TileFill{address, ScalarText(stride)}).second) {
    absl::StrAppend(array_declarations(), "  using Tile", number, " = tk::Tile<", type, ", ",
                    tiles->along, ", ", tiles->across, ", ", it->run, ", T>;\n  ", type,
                    "* const tile", number, " = reinterpret_cast<", type, "*>(shared_rows + ",
                    it->offset, ");\n");
  }
  return absl::StrCat("Tile", number, "::read<W>(tile", number, ", tile_row, tile_column)");
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
  return "load_anywhere";
}

bool CudaBody::IsAhead(const Inst& inst) const {
  const auto* sweep = plan_.As<CudaSweep>();
  return sweep != nullptr && sweep->prefetches && !tail() && inst.guard < 0 &&
         !IsWritten(nest(), inst.buffer) && DependsOnRow(nest(), inst.index);
}

// What is known of the row before its vectors says where, and whether, to load. An index that is no
// multiple of the vector loop is computed beside the vector that it is for.
bool CudaBody::LoadsFirst(const Inst& inst) {
  const auto* rows = plan_.As<CudaRows>();
  return rows != nullptr && rows->loads_first && !tail() && !IsWritten(nest(), inst.buffer) &&
         sym::LinearCoefficient(inst.index, VectorLoop()) &&
         LevelOf(sym::Substitute(inst.index, {{VectorLoop(), Expr(0)}})) == 0 &&
         (inst.guard < 0 ? !is_rare_ : Emit(inst.guard).level == 0);
}

std::string CudaBody::DefineScalarLoad(const Inst& inst, int level, const std::string& text) {
  if (level != 0 || !IsAhead(inst)) return BodyEmitter::DefineScalarLoad(inst, level, text);
  const std::string type = absl::StrCat(StorageType(inst.storage), ", 1>");
  auto [it, is_new] = ahead_.try_emplace({inst.buffer, inst.index});
  if (is_new) {
    const size_t number = ahead_.size() - 1;
    it->second = absl::StrCat("present", number);
    absl::StrAppend(array_declarations(), "  tk::Packed<", type, " ahead", number, ", ", it->second,
                    ";\n");
    row_ahead_.load_scalars.push_back(absl::StrCat("ahead", number, " = ", PackedLoad(text), ";"));
    row_ahead_.take_scalars.push_back(absl::StrCat(it->second, " = ahead", number, ";"));
  }
  return Define(0, absl::StrCat("tk::unpack<", type, "(", it->second, ")"));
}

std::string CudaBody::DefineLoad(const Inst& inst, const std::string& text) {
  const auto key = std::make_pair(inst.buffer, inst.index);
  const bool is_plain = inst.guard < 0 && IsPlainLoad(text);
  if (const auto it = ahead_.find(key);
      is_plain && (it != ahead_.end() || (member().position <= 1 && IsAhead(inst)))) {
    const std::string type = absl::StrCat(StorageType(inst.storage), ", W>");
    std::string& present = ahead_[key];
    if (it == ahead_.end()) {
      const size_t number = ahead_.size() - 1;
      present = absl::StrCat("present", number);
      absl::StrAppend(array_declarations(), "  tk::Packed<", type, " ahead", number, "[",
                      plan_.register_vectors(), "], ", present, "[", plan_.register_vectors(),
                      "];\n");
      row_ahead_.load_vectors.push_back(
          absl::StrCat("ahead", number, "[k] = ", PackedLoad(text), ";"));
      row_ahead_.take_vectors.push_back(absl::StrCat(present, "[k] = ahead", number, "[k];"));
    }
    return Define(vector_level(), absl::StrCat("tk::unpack<", type, "(", present, "[k])"));
  }
  if (LoadsFirst(inst)) {
    auto [it, is_new] = loaded_.try_emplace(text);
    const std::string packed = absl::StrCat("<", StorageType(inst.storage), ", W>");
    if (is_new) {
      it->second = absl::StrCat("loaded", loaded_.size() - 1);
      // As they lie in memory, where they may: narrow floats take half as many registers so.
      const std::string type =
          is_plain ? "Packed" + packed : absl::StrCat("Vec<", ComputeTypeText(inst.dtype), ", W>");
      absl::StrAppend(array_declarations(), "  tk::", type, " ", it->second, "[",
                      plan_.register_vectors(), "];\n");
      const bool found = inst.guard >= 0 || sym::ContainsKind(inst.index, sym::AtomKind::kIndirect);
      std::vector<std::string>& loads = found ? found_loads_ : first_loads_;
      loads.push_back(absl::StrCat(it->second, "[k] = ", is_plain ? PackedLoad(text) : text, ";"));
    }
    const std::string loaded = absl::StrCat(it->second, "[k]");
    return Define(vector_level(),
                  is_plain ? absl::StrCat("tk::unpack", packed, "(", loaded, ")") : loaded);
  }
  if (repeated_.count(key) == 0) return BodyEmitter::DefineLoad(inst, text);
  auto [it, is_new] = kept_.try_emplace(key);
  auto& [array, position] = it->second;
  if (is_new) {
    array = absl::StrCat("kept", kept_.size() - 1);
    position = member().position;
    absl::StrAppend(array_declarations(), "  tk::Vec<", ComputeTypeText(inst.dtype), ", W> ", array,
                    "[", plan_.register_vectors(), "];\n");
  }
  if (position != member().position) return Define(vector_level(), absl::StrCat(array, "[k]"));
  const std::string name = Define(vector_level(), text);
  const std::string keep = absl::StrCat(array, "[k] = ", name, ";");
  std::vector<std::string>& out = lines(vector_level());
  if (std::find(out.begin(), out.end(), keep) == out.end()) out.push_back(keep);
  return name;
}

bool CudaBody::IsRun(const Expr& e) const {
  return !plan_.is_interleaved() && !plan_.is_peeled() &&
         VectorAlignment(e, VectorLoop()) >= plan_.width;
}

std::string CudaBody::SpecialCompute(const Inst& inst) {
  switch (inst.op) {
    case Op::k_lt:
    case Op::k_ge: {
      const std::string random = RandomComparison(inst);
      return random.empty() ? CommonComparison(inst) : random;
    }
    case Op::k_eq:
      return EqualIndex(inst);
    case Op::k_sub:
      return SubtractAtIndex(inst);
    case Op::k_philox_uniform:
    case Op::k_philox_normal:
      return RandomRun(inst);
    default:
      return "";
  }
}

std::string CudaBody::CommonComparison(const Inst& inst) {
  const Inst &index = InstOf(inst.args[0]), &zero = InstOf(inst.args[1]);
  const bool with_zero =
      zero.kind == InstKind::kConstant && zero.dtype == kInt64 && zero.integer == 0;
  if (index.kind != InstKind::kIndex || !with_zero || LevelOf(index.index) != vector_level() ||
      !IsRun(index.index)) {
    return "";
  }
  return absl::StrCat("tk::broadcast<W>(", ScalarText(index.index),
                      inst.op == Op::k_lt ? " < 0)" : " >= 0)");
}

std::string CudaBody::Distance(const Inst& equal) {
  for (const int which : {0, 1}) {
    const Inst& index = InstOf(equal.args[which]);
    if (index.kind != InstKind::kIndex || index.dtype != kInt64) continue;
    const auto step = sym::LinearCoefficient(index.index, VectorLoop());
    if (!step || !step->Is(1) || sym::ContainsKind(index.index, sym::AtomKind::kIndirect)) continue;
    const EmittedValue other = EmitOperand(equal, equal.args[1 - which]);
    if (other.level >= vector_level()) continue;
    return absl::StrCat("tk::get(", Use(other, 0), ", 0) - int64_t(", ScalarText(index.index),
                        "), ", plan_.is_interleaved() ? "G" : "1");
  }
  return "";
}

std::string CudaBody::EqualIndex(const Inst& inst) {
  const std::string distance = Distance(inst);
  return distance.empty() ? "" : absl::StrCat("tk::equal_lane<W>(", distance, ")");
}

std::string CudaBody::SubtractAtIndex(const Inst& inst) {
  const Inst& choice = InstOf(inst.args[1]);
  if (choice.kind != InstKind::kCompute || choice.op != Op::k_where) return "";
  const Inst &equal = InstOf(choice.args[0]), &none = InstOf(choice.args[2]);
  if (equal.kind != InstKind::kCompute || equal.op != Op::k_eq ||
      none.kind != InstKind::kConstant || !IsFloating(none.dtype) || none.number != 0) {
    return "";
  }
  const EmittedValue amount = EmitOperand(choice, choice.args[1]);
  if (amount.level >= vector_level()) return "";
  const std::string distance = Distance(equal);
  if (distance.empty()) return "";
  return absl::StrCat("tk::sub_at(", Use(EmitOperand(inst, inst.args[0]), vector_level()), ", ",
                      distance, ", ", Use(amount, 0), ")");
}

std::string CudaBody::RunArguments(const Inst& inst) {
  const Inst& element = InstOf(inst.args[2]);
  if (element.kind != InstKind::kIndex || LevelOf(element.index) != vector_level() ||
      !IsRun(element.index)) {
    return "";
  }
  const EmittedValue seed = EmitOperand(inst, inst.args[0]);
  const EmittedValue stream = EmitOperand(inst, inst.args[1]);
  if (seed.level >= vector_level() || stream.level >= vector_level()) return "";
  return absl::StrCat(Use(seed, 0), ", ", Use(stream, 0), ", ", ScalarText(element.index));
}

std::string CudaBody::RandomRun(const Inst& inst) {
  const std::string arguments = RunArguments(inst);
  return arguments.empty() ? ""
                           : absl::StrCat("tk::", InfoOf(inst.op).name, "_run<W>(", arguments, ")");
}

// A number is a multiple of 2^-24, from the upper bits of its word.
std::string CudaBody::RandomComparison(const Inst& inst) {
  const Inst &number = InstOf(inst.args[0]), &limit = InstOf(inst.args[1]);
  if (number.kind != InstKind::kCompute || number.op != Op::k_philox_uniform ||
      limit.kind != InstKind::kConstant) {
    return "";
  }
  const double least = std::ceil(std::ldexp(static_cast<float>(limit.number), 24));
  if (!(least >= 0 && least < std::ldexp(1, 24))) return "";
  const std::string arguments = RunArguments(number);
  if (arguments.empty()) return "";
  const std::string at_least = absl::StrCat("tk::philox_at_least_run<W>(", arguments, ", ",
                                            static_cast<uint32_t>(least) << 8, "u)");
  return inst.op == Op::k_ge ? at_least : absl::StrCat("tk::logical_not(", at_least, ")");
}

std::string CudaBody::Once(const std::string& statement) {
  return plan_.G() > 1 ? absl::StrCat("if (lane == 0) ", statement) : statement;
}

}  // namespace tensord::compiler
