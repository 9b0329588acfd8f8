#include "compiler/codegen/body.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>

#include "base/check.h"
#include "compiler/codegen/cpp_text.h"

namespace tensord::compiler {
BodyEmitter::BodyEmitter(const Program& program, const Nest& nest, KernelInterface* interface)
    : program_(program), nest_(nest), interface_(interface) {
  lines_.resize(vector_level() + 1);
  known_.resize(vector_level() + 1);
}

void BodyEmitter::BeginPass(bool tail) {
  tail_ = tail;
  // A tail sees the scalars of the levels outside the vector loop that the full vectors made.
  for (int level = tail ? vector_level() : 1; level <= vector_level(); ++level) {
    if (level == 0) continue;
    lines_[level].clear();
    known_[level].clear();
  }
  memo_.clear();
  indirect_.clear();
  pass_values_.clear();
}

void BodyEmitter::SetMember(const NestMember* member) { member_ = member; }

std::string BodyEmitter::Define(int level, const std::string& text) {
  for (int l = 0; l <= level; ++l) {
    if (auto it = known_[l].find(text); it != known_[l].end()) return it->second;
  }
  const std::string name = absl::StrCat("v", next_name_++);
  lines_[level].push_back(absl::StrCat("const auto ", name, " = ", text, ";"));
  known_[level][text] = name;
  return name;
}

std::string BodyEmitter::Use(const EmittedValue& value, int level) const {
  const bool vector = level == vector_level() && level > 0 && member_->has_inner;
  if (!value.literal.empty()) {
    return absl::StrCat("tk::broadcast<", vector ? "W" : "1", ">(", value.literal, ")");
  }
  if (vector && value.level < vector_level()) return absl::StrCat("tk::splat<W>(", value.name, ")");
  return value.name;
}

// ---- Expressions

int BodyEmitter::LevelOf(const Expr& e) {
  int level = 0;
  const int outer = static_cast<int>(nest_.outer.size());
  sym::ForEachSymbol(e, [&](const sym::Atom& atom) {
    if (atom.kind == sym::AtomKind::kLoop) {
      level = std::max(level, atom.id < outer ? 0 : atom.id - outer + 1);
    } else if (atom.kind == sym::AtomKind::kIndirect) {
      // Its instruction comes before every use.
      for (size_t i = 0; i < member_->loops.block.insts.size(); ++i) {
        const Inst& inst = member_->loops.block.insts[i];
        if (inst.kind == InstKind::kIndirect && inst.symbol == atom.id) {
          level = std::max(level, Emit(static_cast<int>(i)).level);
        }
      }
    }
  });
  return level;
}

std::string BodyEmitter::ScalarText(const Expr& e) {
  return sym::ToCpp(e, [&](const sym::Atom& atom) -> std::string {
    switch (atom.kind) {
      case sym::AtomKind::kLoop:
        return absl::StrCat("i", atom.id);
      case sym::AtomKind::kIndirect: {
        const EmittedValue& value = indirect_.at({member_, atom.id});
        return absl::StrCat("tk::get(", Use(value, 0), ", 0)");
      }
      default: {
        const int slot = interface_->Integer(Expr::Size(atom.id, atom.min, atom.hint));
        used_integers_.insert(slot);
        return absl::StrCat("n", slot);
      }
    }
  });
}

std::string BodyEmitter::ExtentText(const Expr& extent) {
  if (auto constant = extent.AsConstant()) return absl::StrCat(*constant);
  return ArgumentText(extent);
}

std::string BodyEmitter::ArgumentText(const Expr& value) {
  const int slot = interface_->Integer(value);
  used_integers_.insert(slot);
  return absl::StrCat("n", slot);
}

std::string BodyEmitter::VectorAtom(const sym::Atom& atom) {
  switch (atom.kind) {
    case sym::AtomKind::kLoop:
      return Define(vector_level(), LaneStep().empty()
                                        ? absl::StrCat("tk::iota<int64_t, W>(i", atom.id, ")")
                                        : absl::StrCat("tk::iota_by<int64_t, W>(i", atom.id, ", ",
                                                       LaneStep(), ")"));
    case sym::AtomKind::kIndirect:
      return indirect_.at({member_, atom.id}).name;
    case sym::AtomKind::kFloorDiv:
      return absl::StrCat("tk::floor_div(", VectorText(atom.args[0]), ", ",
                          VectorText(atom.args[1]), ")");
    case sym::AtomKind::kMod:
      return absl::StrCat("tk::mod(", VectorText(atom.args[0]), ", ", VectorText(atom.args[1]),
                          ")");
    case sym::AtomKind::kMin:
      return absl::StrCat("tk::minimum(", VectorText(atom.args[0]), ", ", VectorText(atom.args[1]),
                          ")");
    default:
      return absl::StrCat("tk::maximum(", VectorText(atom.args[0]), ", ", VectorText(atom.args[1]),
                          ")");
  }
}

std::string BodyEmitter::VectorText(const Expr& e) {
  std::vector<sym::Term> uniform;
  std::string sum;
  for (const sym::Term& term : e.terms()) {
    sym::Term scalar{term.coefficient, {}};
    std::string product;
    for (const sym::AtomPtr& atom : term.atoms) {
      if (LevelOf(Expr::FromAtom(atom)) < vector_level()) {
        scalar.atoms.push_back(atom);
        continue;
      }
      const std::string factor = VectorAtom(*atom);
      product = product.empty() ? factor : absl::StrCat("tk::mul(", product, ", ", factor, ")");
    }
    if (product.empty()) {
      uniform.push_back(term);
      continue;
    }
    const Expr factor = Expr::FromTerms({scalar});
    if (!factor.Is(1)) {
      product = absl::StrCat("tk::mul(", product, ", tk::broadcast<W>(int64_t(", ScalarText(factor),
                             ")))");
    }
    sum = sum.empty() ? product : absl::StrCat("tk::add(", sum, ", ", product, ")");
  }
  const Expr rest = Expr::FromTerms(uniform);
  if (sum.empty()) return absl::StrCat("tk::broadcast<W>(int64_t(", ScalarText(rest), "))");
  if (!rest.Is(0)) {
    sum = absl::StrCat("tk::add(", sum, ", tk::broadcast<W>(int64_t(", ScalarText(rest), ")))");
  }
  return Define(vector_level(), sum);
}

std::string BodyEmitter::InnerPosition() {
  Expr position(0), stride(1);
  for (int q = vector_level() - 1; q >= 0; --q) {
    position += Expr::Loop(static_cast<int>(nest_.outer.size()) + q, nest_.inner[q]) * stride;
    stride *= nest_.inner[q];
  }
  return ScalarText(position);
}

// ---- Memory

std::string BodyEmitter::StepText(const Expr& stride) {
  const std::string text = ScalarText(stride);
  return LaneStep().empty() ? text : absl::StrCat("(", text, ") * ", LaneStep());
}

std::optional<Expr> BodyEmitter::VectorStride(const Expr& index) {
  bool indirect = false;
  sym::ForEachSymbol(index, [&](const sym::Atom& atom) {
    if (atom.kind == sym::AtomKind::kIndirect) {
      indirect |= indirect_.at({member_, atom.id}).level == vector_level();
    }
  });
  if (indirect) return std::nullopt;
  std::optional<Expr> stride = sym::LinearCoefficient(index, VectorLoop());
  if (stride && stride->Is(0)) stride.reset();
  return stride;
}

std::string BodyEmitter::LanesInRange(const std::string& mask) const {
  if (!tail_) return mask;
  constexpr const char* kFirst = "tk::mask_first<W>(left)";
  return mask.empty() ? kFirst : absl::StrCat(mask, " & ", kFirst);
}

EmittedValue BodyEmitter::AsVector(EmittedValue value) {
  if (value.level < vector_level() || !value.literal.empty()) {
    value.name = Define(vector_level(), Use(value, vector_level()));
    value.literal.clear();
    value.level = vector_level();
  }
  return value;
}

std::string BodyEmitter::Pointer(BufferId id, bool writes) {
  used_buffers_[id] |= writes;
  if (writes) interface_->MarkWritten(id);
  return absl::StrCat("b", interface_->Buffer(id));
}

EmittedValue BodyEmitter::EmitLoad(const Inst& inst) {
  if (auto it = row_values_.find(inst.buffer); it != row_values_.end()) return it->second;
  if (auto it = pass_values_.find(inst.buffer); it != pass_values_.end()) return it->second;
  EmittedValue value{.dtype = inst.dtype};
  const std::string storage = StorageType(inst.storage);
  if (nest_.local.count(inst.buffer) != 0) {
    if (ComputesAgain(inst.buffer)) return EmitAgain(inst.buffer);
    value.level = vector_level();
    value.name = Define(value.level, ReadLocal(inst.buffer));
    return value;
  }
  if (KeepsStored(inst.buffer)) {
    value.level = vector_level();
    value.name = Define(value.level, ReadLocal(inst.buffer));
    return value;
  }
  const std::string pointer = Pointer(inst.buffer, false);
  EmittedValue guard;
  value.level = LevelOf(inst.index);
  if (inst.guard >= 0) {
    guard = Emit(inst.guard);
    value.level = std::max(value.level, guard.level);
  }
  const bool guarded = inst.guard >= 0;
  if (value.level < vector_level() || vector_level() == 0) {
    const std::string at = absl::StrCat(pointer, " + ", ScalarText(inst.index));
    value.name = guarded ? Define(value.level, absl::StrCat("tk::load_masked<", storage, ", 1>(",
                                                            at, ", ", Use(guard, 0), ")"))
                         : DefineScalarLoad(inst, value.level,
                                            absl::StrCat("tk::load<", storage, ", 1>(", at, ")"));
    return value;
  }
  const std::string mask = LanesInRange(guarded ? Use(guard, vector_level()) : "");
  const std::optional<Expr> stride = VectorStride(inst.index);
  std::string text;
  if (stride) {
    const std::string at = absl::StrCat(pointer, " + ", ScalarText(inst.index));
    if (stride->Is(1) && LaneStep().empty() && (!guarded || LoadsAtOnce(inst.index))) {
      text = guarded ? absl::StrCat("tk::load_masked<", storage, ", W>(", at, ", ", mask, ")")
             : tail_ ? absl::StrCat("tk::load_tail<", storage, ", W>(", at, ", left)")
                     : absl::StrCat("tk::", RunLoad(inst), "<", storage, ", W>(", at, ")");
    } else if (std::string special = SpecialLoad(inst, at, *stride); !special.empty()) {
      text = special;
    } else {
      const std::string step = StepText(*stride);
      text = guarded ? absl::StrCat("tk::strided_masked<", storage, ", W>(", at, ", ", step, ", ",
                                    mask, ")")
             : tail_
                 ? absl::StrCat("tk::strided_tail<", storage, ", W>(", at, ", ", step, ", left)")
                 : absl::StrCat("tk::strided<", storage, ", W>(", at, ", ", step, ")");
    }
  } else {
    const std::string index = VectorText(inst.index);
    text = mask.empty() ? absl::StrCat("tk::gather<", storage, ", W>(", pointer, ", ", index, ")")
                        : absl::StrCat("tk::gather_masked<", storage, ", W>(", pointer, ", ", index,
                                       ", ", mask, ")");
  }
  value.name = DefineLoad(inst, text);
  return value;
}

EmittedValue BodyEmitter::EmitAgain(BufferId buffer) {
  const NestMember* const reader = member_;
  for (const NestMember& writer : nest_.members) {
    for (const Store& store : writer.loops.stores) {
      if (store.buffer != buffer) continue;
      member_ = &writer;
      const EmittedValue value = AsVector(Emit(store.value));
      member_ = reader;
      return value;
    }
  }
  TENSORD_CHECK(false, "nothing stores a local buffer");
}

void BodyEmitter::ForgetUnit() {
  lines_[0].clear();
  known_[0].clear();
  row_values_.clear();
  streams_.clear();
}

void BodyEmitter::EmitStore(const Store& store, bool keep_for_later_pass) {
  EmittedValue value = Emit(store.value);
  const bool local = nest_.local.count(store.buffer) != 0;
  if ((!member_->has_inner || vector_level() == 0) && store.mode == StoreMode::kAssign &&
      store.guard < 0) {
    EmitRowResult(store.buffer, store.index, value);
    return;
  }
  const int level = member_->has_inner ? vector_level() : 0;
  const bool vector = level > 0;
  const std::string text = Use(value, level);
  if (vector && store.mode == StoreMode::kAssign) {
    pass_values_[store.buffer] = AsVector(value);
  }
  if (local) {
    if (keep_for_later_pass && !ComputesAgain(store.buffer)) {
      lines_[level].push_back(WriteLocal(store.buffer, text));
    }
    return;
  }
  if (keep_for_later_pass && KeepsStored(store.buffer)) {
    const DType storage = program_.buffers[store.buffer].dtype;
    lines_[level].push_back(WriteLocal(
        store.buffer, storage == ComputeType(storage)
                          ? text
                          : absl::StrCat("tk::round_to<", StorageType(storage), ">(", text, ")")));
  }
  const std::string mask = store.guard >= 0 ? Use(Emit(store.guard), level) : "";
  StoreAt(store.buffer, store.index, store.mode, Use(Emit(Unrounded(store)), level), mask, level);
}

// Storing rounds by itself.
int BodyEmitter::Unrounded(const Store& store) const {
  const Inst& value = InstOf(store.value);
  const bool rounds = store.mode == StoreMode::kAssign && value.kind == InstKind::kRound &&
                      value.storage == program_.buffers[store.buffer].dtype;
  return rounds ? value.args[0] : store.value;
}

void BodyEmitter::EmitColumns(BufferId buffer, const Expr& index, const std::string& vector) {
  StoreAt(buffer, index, StoreMode::kAssign, vector, "", vector_level());
}

void BodyEmitter::StoreAt(BufferId buffer, const Expr& element, StoreMode mode,
                          const std::string& text, std::string mask, int level) {
  const bool vector = level > 0;
  const std::string storage = StorageType(program_.buffers[buffer].dtype);
  const std::string pointer = Pointer(buffer, true);
  const std::string lanes = vector ? "W" : "1";
  const bool add = mode == StoreMode::kAtomicAdd;
  const int index_level = LevelOf(element);
  const std::optional<Expr> stride = vector ? VectorStride(element) : std::nullopt;
  std::vector<std::string>& out = lines_[level];
  const auto push = [&](const std::string& statement) {
    out.push_back(vector ? statement : Once(statement));
  };
  if (add && AddsAreAtomic()) {
    if (vector) mask = LanesInRange(mask);
    if (mask.empty()) mask = absl::StrCat("tk::broadcast<", lanes, ">(true)");
    if (vector && stride && stride->Is(1) && LaneStep().empty()) {
      push(absl::StrCat("tk::scatter_add_run<", storage, ", W>(", pointer, " + ",
                        ScalarText(element), ", ", text, ", ", mask, ");"));
      return;
    }
    const std::string index =
        vector ? VectorText(element)
               : absl::StrCat("tk::broadcast<1>(int64_t(", ScalarText(element), "))");
    push(absl::StrCat("tk::scatter_add<", storage, ", ", lanes, ">(", pointer, ", ", index, ", ",
                      text, ", ", mask, ");"));
    return;
  }
  if (!vector && !mask.empty() && !add) {
    push(absl::StrCat("tk::store_masked<", storage, ", 1>(", pointer, " + ", ScalarText(element),
                      ", ", text, ", ", mask, ");"));
    return;
  }
  if (!vector || (stride && stride->Is(1) && LaneStep().empty() && mask.empty())) {
    TENSORD_CHECK(vector || index_level == 0);
    const std::string at = absl::StrCat(pointer, " + ", ScalarText(element));
    std::string stored = text;
    const bool tail = vector && tail_;
    if (add) {
      stored = absl::StrCat("tk::add(", tail ? "tk::load_tail<" : "tk::load<", storage, ", ", lanes,
                            ">(", at, tail ? ", left" : "", "), ", text, ")");
    }
    push(tail ? absl::StrCat("tk::store_tail<", storage, ", W>(", at, ", ", stored, ", left);")
              : absl::StrCat("tk::store<", storage, ", ", lanes, ">(", at, ", ", stored, ");"));
    return;
  }
  mask = LanesInRange(mask);
  if (stride && !add) {
    const std::string at = absl::StrCat(pointer, " + ", ScalarText(element));
    if (stride->Is(1) && LaneStep().empty()) {
      push(absl::StrCat("tk::store_masked<", storage, ", W>(", at, ", ", text, ", ", mask, ");"));
      return;
    }
    const std::string step = StepText(*stride);
    push(mask.empty() ? absl::StrCat("tk::store_strided<", storage, ", W>(", at, ", ", step, ", ",
                                     text, ");")
                      : absl::StrCat("tk::store_strided_masked<", storage, ", W>(", at, ", ", step,
                                     ", ", text, ", ", mask, ");"));
    return;
  }
  const std::string index = VectorText(element);
  if (mask.empty()) mask = "tk::broadcast<W>(true)";
  push(absl::StrCat(add ? "tk::scatter_add<" : "tk::scatter_masked<", storage, ", W>(", pointer,
                    ", ", index, ", ", text, ", ", mask, ");"));
}

void BodyEmitter::EmitRowResult(BufferId buffer, const Expr& index, const EmittedValue& value) {
  row_values_[buffer] = value;
  if (nest_.local.count(buffer) != 0) return;
  const std::string storage = StorageType(program_.buffers[buffer].dtype);
  lines_[0].push_back(Once(absl::StrCat("tk::store<", storage, ", 1>(", Pointer(buffer, true),
                                        " + ", ScalarText(index), ", ", Use(value, 0), ");")));
}

// ---- Instructions

EmittedValue BodyEmitter::Emit(int id) {
  if (auto it = memo_.find({member_, id}); it != memo_.end()) return it->second;
  EmittedValue value = EmitUncached(id);
  memo_[{member_, id}] = value;
  return value;
}

EmittedValue BodyEmitter::EmitUncached(int id) {
  const Inst& inst = member_->loops.block.insts[id];
  EmittedValue value{.dtype = inst.dtype};
  if (inst.kind == InstKind::kConstant) {
    value.literal = Literal(inst.dtype, inst.number, inst.integer);
    return value;
  }
  if (inst.kind == InstKind::kLoad) return EmitLoad(inst);
  if (inst.kind == InstKind::kIndex) {
    value.level = LevelOf(inst.index);
    const bool vector = value.level == vector_level() && vector_level() > 0;
    value.name = vector ? VectorText(inst.index)
                        : Define(value.level, absl::StrCat("tk::broadcast<1>(int64_t(",
                                                           ScalarText(inst.index), "))"));
    return value;
  }
  if (inst.kind == InstKind::kCompute && vector_level() > 0 && member_->has_inner) {
    if (std::string special = SpecialCompute(inst); !special.empty()) {
      value.level = vector_level();
      value.name = Define(value.level, special);
      return value;
    }
  }
  // Every type has 0 and 1.
  if (inst.kind == InstKind::kRound && InstOf(inst.args[0]).kind == InstKind::kCast &&
      InstOf(InstOf(inst.args[0]).args[0]).dtype == kBool) {
    return Emit(inst.args[0]);
  }
  std::vector<EmittedValue> args;
  for (int arg : inst.args) {
    args.push_back(EmitOperand(inst, arg));
    value.level = std::max(value.level, args.back().level);
  }
  if (inst.kind == InstKind::kIndirect) {
    value = args[0];
    if (!value.literal.empty()) {
      value.name = Define(0, absl::StrCat("tk::broadcast<1>(", value.literal, ")"));
      value.literal.clear();
    }
    indirect_[{member_, inst.symbol}] = value;
    return value;
  }
  std::vector<std::string> texts;
  for (const EmittedValue& arg : args) texts.push_back(Use(arg, value.level));
  const std::string operands = absl::StrJoin(texts, ", ");
  switch (inst.kind) {
    case InstKind::kCompute:
      value.name =
          Define(value.level, absl::StrCat("tk::", InfoOf(inst.op).name, "(", operands, ")"));
      break;
    case InstKind::kCast:
      value.name = Define(
          value.level, absl::StrCat("tk::cast<", ComputeTypeText(inst.dtype), ">(", operands, ")"));
      break;
    case InstKind::kBitcast:
      value.name = Define(value.level, absl::StrCat("tk::bitcast<", ComputeTypeText(inst.dtype),
                                                    ">(", operands, ")"));
      break;
    case InstKind::kRound:
      value.name = Define(value.level, absl::StrCat("tk::round_to<", StorageType(inst.storage),
                                                    ">(", operands, ")"));
      break;
    default:
      TENSORD_CHECK(false, "unreachable");
  }
  return value;
}

// The number of a random operator differs from layer to layer; as an argument it leaves their
// kernels equal.
bool BodyEmitter::IsStream(const Inst& inst, int arg) const {
  return inst.kind == InstKind::kCompute &&
         (inst.op == Op::k_philox_uniform || inst.op == Op::k_philox_normal) &&
         arg == inst.args[1] && member_->loops.block.insts[arg].kind == InstKind::kConstant;
}

EmittedValue BodyEmitter::EmitStream(int arg) {
  const auto key = std::make_pair(member_, arg);
  if (auto it = streams_.find(key); it != streams_.end()) return it->second;
  const int64_t stream = member_->loops.block.insts[arg].integer;
  EmittedValue value{.dtype = kInt64};
  value.name =
      Define(0, absl::StrCat("tk::broadcast<1>(int64_t(", ArgumentText(Expr(stream)), "))"));
  streams_[key] = value;
  return value;
}

std::string BodyEmitter::Declarations() const {
  // By position: the buffers' own numbers differ between nests that are alike.
  std::map<int, std::string> pointers;
  for (const auto& [id, written] : used_buffers_) {
    const int slot = interface_->Buffer(id);
    pointers[slot] =
        interface_->DeclarePointer(slot, StorageType(program_.buffers[id].dtype), written);
  }
  std::string text;
  for (const auto& [slot, pointer] : pointers) absl::StrAppend(&text, "  ", pointer);
  for (int slot : used_integers_) absl::StrAppend(&text, "  ", interface_->DeclareInteger(slot));
  return text + array_declarations_;
}

}  // namespace tensord::compiler
