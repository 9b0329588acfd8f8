#include "compiler/codegen/cpu_nest.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "compiler/codegen/cpp_text.h"
#include "compiler/codegen/cpu_body.h"

namespace tensord::compiler {
namespace {

// Elements of a flat nest's unit, and columns of a blocked nest's (a multiple of every vector width).
constexpr int64_t kFlatChunk = 4096;
constexpr int64_t kBlockColumns = 64;

bool IsArg(ReduceKind kind) { return kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax; }

std::string Indent(const std::vector<std::string>& lines, int depth) {
  std::string text;
  for (const std::string& line : lines) absl::StrAppend(&text, std::string(2 * depth, ' '), line, "\n");
  return text;
}

// An accumulator of one reduction.
struct Accumulator {
  const NestMember* member;
  const Reduction* reduction;
  std::string name;     // variable, or pointer to the accumulators of the columns
  DType dtype;
  std::string type;     // compute type
  std::string offset;   // in this task's scratch, for those that outlive the unit loop
};

class NestWriter {
 public:
  NestWriter(const Program& program, Nest nest, std::string name, int lanes,
             KernelInterface* interface)
      : program_(program), nest_(std::move(nest)), name_(std::move(name)), lanes_(lanes), interface_(interface) {
    // A flat nest that could not be merged into one loop is a tiled one over its last loop.
    if (nest_.shape == NestShape::kFlat && nest_.inner.size() > 1) {
      nest_.shape = NestShape::kTiled;
      nest_.outer.assign(nest_.inner.begin(), nest_.inner.end() - 1);
      nest_.inner.erase(nest_.inner.begin(), nest_.inner.end() - 1);
      for (NestMember& member : nest_.members) member.reduces_outer = member.reduces_inner;
    }
    if (nest_.shape == NestShape::kFlat) {
      for (NestMember& member : nest_.members) member.reduces_outer = member.reduces_inner;
    }
    body_.emplace(program, nest_, interface);
    FindAccumulators();
  }

  NestText Write() {
    NestText text;
    text.units = Units();
    text.work = Work();
    std::string unit_body;
    std::set<int> positions;
    for (const NestMember& member : nest_.members) positions.insert(member.position);
    for (int position : positions) {
      unit_body += position % 2 == 1 ? Pass(position) : RowStatements(position);
    }
    const std::string decode = DecodeUnit(), declare = DeclarePrivate(), save = SavePrivate();
    absl::StrAppend(&text.function, "static void ", name_,
                    "([[maybe_unused]] const TensordKernelArgs* args, int64_t begin, int64_t end, "
                    "[[maybe_unused]] char* scratch) {\n"
                    "  [[maybe_unused]] constexpr int W = tk::kLanes;\n",
                    body_->Declarations(), declare,
                    "  for (int64_t unit = begin; unit < end; ++unit) {\n", decode, unit_body,
                    "  }\n", save, "}\n");
    if (!private_.empty()) text.finish = Finish();
    return text;
  }

 private:
  int Rank() const { return static_cast<int>(nest_.outer.size() + nest_.inner.size()); }
  int VectorLoop() const { return Rank() - 1; }
  bool HasVectorLoop() const { return !nest_.inner.empty(); }

  void FindAccumulators() {
    for (const NestMember& member : nest_.members) {
      for (const Reduction& reduction : member.loops.reductions) {
        Accumulator acc{.member = &member, .reduction = &reduction};
        acc.dtype = member.loops.block.insts[reduction.value].dtype;
        acc.type = ComputeTypeText(acc.dtype);
        acc.name = absl::StrCat("acc", row_.size() + private_.size());
        if (member.reduces_outer) {
          const bool columns = member.has_inner && !member.reduces_inner;
          const Expr count = columns ? sym::Product(nest_.inner) : Expr(1);
          acc.offset = interface_->Scratch(count * ItemSize(ComputeType(acc.dtype)));
          private_.push_back(acc);
        } else {
          row_.push_back(acc);
        }
      }
    }
  }

  static bool IsColumns(const Accumulator& acc) {
    return acc.member->has_inner && !acc.member->reduces_inner;
  }

  // ---- Units

  std::string Units() {
    const Expr outer = sym::Product(nest_.outer);
    if (nest_.shape == NestShape::kFlat && HasVectorLoop()) {
      extent_ = body_->ArgumentText(nest_.inner[0]);
      return absl::StrCat("(", extent_, " + ", kFlatChunk - 1, ") / ", kFlatChunk);
    }
    if (nest_.shape == NestShape::kBlocked && RunsInBlocks()) {
      blocks_ = absl::StrCat("((", body_->ExtentText(nest_.inner.back()), " + ", kBlockColumns - 1,
                             ") / ", kBlockColumns, ")");
      return absl::StrCat(body_->ArgumentText(outer), " * ", blocks_);
    }
    blocks_ = "1";
    return body_->ArgumentText(outer);
  }

  // Columns are apart from each other when every store steps by them directly.
  bool RunsInBlocks() const {
    if (!HasVectorLoop()) return false;
    const sym::SymbolKey loop{sym::AtomKind::kLoop, VectorLoop()};
    for (const NestMember& member : nest_.members) {
      for (const Store& store : member.loops.stores) {
        auto stride = sym::LinearCoefficient(store.index, loop);
        if (!stride || stride->Is(0)) return false;
        bool varies = false;
        sym::ForEachSymbol(store.index, [&](const sym::Atom& atom) {
          if (atom.kind == sym::AtomKind::kIndirect) varies |= IndirectVaries(member, atom.id);
        });
        if (varies) return false;
      }
    }
    return true;
  }

  // Does the index behind an indirect symbol depend on the vector loop?
  bool IndirectVaries(const NestMember& member, int symbol) const {
    const Block& block = member.loops.block;
    std::vector<bool> varies(block.insts.size(), false);
    std::set<int> varying_symbols;
    for (size_t i = 0; i < block.insts.size(); ++i) {
      const Inst& inst = block.insts[i];
      for (int arg : inst.args) varies[i] = varies[i] || varies[arg];
      if (inst.kind == InstKind::kLoad || inst.kind == InstKind::kIndex) {
        sym::ForEachSymbol(inst.index, [&](const sym::Atom& atom) {
          if (atom.kind == sym::AtomKind::kLoop && atom.id == VectorLoop()) varies[i] = true;
          if (atom.kind == sym::AtomKind::kIndirect && varying_symbols.count(atom.id)) varies[i] = true;
        });
      }
      if (inst.kind == InstKind::kIndirect && varies[i]) varying_symbols.insert(inst.symbol);
    }
    return varying_symbols.count(symbol) != 0;
  }

  std::string Work() {
    int64_t cost = 0;
    for (const NestMember& member : nest_.members) {
      int64_t member_cost = 1;
      for (const Inst& inst : member.loops.block.insts) {
        member_cost += inst.kind == InstKind::kCompute ? InfoOf(inst.op).cost
                       : inst.kind == InstKind::kLoad  ? 2
                                                       : 0;
      }
      cost += std::max<int64_t>(1, member_cost / 4) *
              (member.has_inner ? 1 : 0);
    }
    cost = std::max<int64_t>(cost, 1);
    if (nest_.shape == NestShape::kFlat && HasVectorLoop()) return absl::StrCat(extent_, " * ", cost);
    return absl::StrCat(body_->ArgumentText(sym::Product(nest_.outer)), " * ",
                        cost * std::max<int64_t>(1, sym::Hint(sym::Product(nest_.inner))));
  }

  // The outer loop variables from the unit's number.
  std::string DecodeUnit() {
    std::string text;
    std::string row = "unit";
    if (nest_.shape == NestShape::kBlocked && blocks_ != "1") {
      absl::StrAppend(&text, "    const int64_t block = unit % ", blocks_,
                      ";\n    [[maybe_unused]] const int64_t row = unit / ", blocks_, ";\n");
      row = "row";
    }
    Expr inside(1);
    std::vector<std::string> lines;
    for (int d = static_cast<int>(nest_.outer.size()) - 1; d >= 0; --d) {
      std::string value = inside.Is(1) ? row : absl::StrCat(row, " / (", body_->ScalarText(inside), ")");
      if (d > 0) value = absl::StrCat(value, " % ", body_->ExtentText(nest_.outer[d]));
      lines.push_back(absl::StrCat("    [[maybe_unused]] const int64_t i", d, " = ", value, ";\n"));
      inside *= nest_.outer[d];
    }
    for (const std::string& line : lines) text += line;
    return text;
  }

  // ---- Passes

  std::string RowStatements(int position) {
    for (const NestMember& member : nest_.members) {
      if (member.position != position) continue;
      body_->SetMember(&member);
      body_->BeginPass(true);  // scalars only; loops are not entered
      for (const Store& store : member.loops.stores) body_->EmitStore(store, false);
      for (const Accumulator& acc : private_) {
        if (acc.member != &member) continue;
        const EmittedValue value = body_->Emit(acc.reduction->value);
        body_->lines(0).push_back(absl::StrCat(acc.name, " = ", CombineFunction(acc.reduction->kind),
                                               "(", acc.name, ", ", body_->Use(value, 0), ");"));
      }
    }
    return Flush();
  }

  std::string Flush() {
    std::string text = Indent(body_->lines(0), 2);
    body_->lines(0).clear();
    return text;
  }

  bool ReadLater(BufferId buffer, int position) const {
    for (const NestMember& member : nest_.members) {
      if (member.position <= position) continue;
      for (const Inst& inst : member.loops.block.insts) {
        if (inst.kind == InstKind::kLoad && inst.buffer == buffer) return true;
      }
    }
    return false;
  }

  // Emits the innermost statements of one pass, for full vectors or for the tail.
  void EmitMembers(int position, bool tail) {
    body_->BeginPass(tail);
    for (const NestMember& member : nest_.members) {
      if (member.position != position) continue;
      body_->SetMember(&member);
      for (const Store& store : member.loops.stores) {
        body_->EmitStore(store, ReadLater(store.buffer, position));
      }
      for (const auto* list : {&row_, &private_}) {
        for (const Accumulator& acc : *list) {
          if (acc.member == &member) EmitAccumulate(acc, tail);
        }
      }
    }
  }

  void EmitAccumulate(const Accumulator& acc, bool tail) {
    const int level = body_->vector_level();
    const std::string lanes = level > 0 ? "W" : "1";
    const EmittedValue emitted = body_->Emit(acc.reduction->value);
    std::string value = body_->Use(emitted, level);
    std::vector<std::string>& out = body_->lines(level);
    const ReduceKind kind = acc.reduction->kind;
    if (nest_.shape == NestShape::kBlocked || IsColumns(acc)) {
      const std::string position =
          nest_.shape == NestShape::kBlocked ? absl::StrCat("i", VectorLoop(), " - first")
                                             : body_->InnerPosition();
      const std::string at = absl::StrCat(acc.name, " + ", position);
      out.push_back(absl::StrCat(tail ? "tk::store_tail<" : "tk::store<", acc.type, ", W>(", at, ", ",
                                 CombineFunction(kind), "(", tail ? "tk::load_tail<" : "tk::load<",
                                 acc.type, ", W>(", at, tail ? ", left" : "", "), ", value, ")",
                                 tail ? ", left);" : ");"));
      return;
    }
    if (kind == ReduceKind::kWelford) {
      out.push_back(absl::StrCat(acc.name, " = ", tail ? "tk::welford_add_tail(" : "tk::welford_add(",
                                 acc.name, ", ", value, tail ? ", left);" : ");"));
      return;
    }
    if (IsArg(kind)) {
      const std::string function = kind == ReduceKind::kArgMax ? "tk::argmax_add" : "tk::argmin_add";
      out.push_back(absl::StrCat(acc.name, " = ", function, tail ? "_tail(" : "(", acc.name, ", ", value,
                                 ", ", body_->InnerPosition(), tail ? ", left);" : ");"));
      return;
    }
    if (tail) {
      value = absl::StrCat("tk::where(tk::mask_first<W>(left), ", value, ", tk::broadcast<W>(",
                           Identity(kind, acc.dtype), "))");
    }
    out.push_back(absl::StrCat(acc.name, " = ", CombineFunction(kind), "(", acc.name, ", ", value, ");"));
  }

  std::string DeclareRowAccumulators(int position) {
    std::string text;
    const std::string lanes = HasVectorLoop() ? "W" : "1";
    for (const Accumulator& acc : row_) {
      if (acc.member->position != position) continue;
      const ReduceKind kind = acc.reduction->kind;
      if (nest_.shape == NestShape::kBlocked) {
        absl::StrAppend(&text, "    alignas(64) ", acc.type, " ", acc.name, "[", kBlockColumns, "];\n",
                        "    for (int64_t c = 0; c < ", kBlockColumns, "; ++c) ", acc.name,
                        "[c] = ", Identity(kind, acc.dtype), ";\n");
      } else if (kind == ReduceKind::kWelford) {
        absl::StrAppend(&text, "    auto ", acc.name, " = tk::welford_init<", acc.type, ", ", lanes,
                        ">();\n");
      } else if (IsArg(kind)) {
        absl::StrAppend(&text, "    auto ", acc.name, " = tk::",
                        kind == ReduceKind::kArgMax ? "argmax" : "argmin", "_start<", acc.type, ", ",
                        lanes, ">();\n");
      } else {
        absl::StrAppend(&text, "    auto ", acc.name, " = tk::broadcast<", lanes, ">(",
                        Identity(kind, acc.dtype), ");\n");
      }
    }
    // Full reductions gather a unit's share apart, so that no long chain of additions builds up.
    for (const Accumulator& acc : private_) {
      if (acc.member->position == position && !IsColumns(acc)) {
        absl::StrAppend(&text, "    auto ", acc.name, " = tk::broadcast<", lanes, ">(",
                        Identity(acc.reduction->kind, acc.dtype), ");\n");
      }
    }
    return text;
  }

  // The scalars that a pass leaves.
  void EmitRowResults(int position) {
    for (const Accumulator& acc : private_) {
      if (acc.member->position == position && !IsColumns(acc)) {
        body_->lines(0).push_back(absl::StrCat("total_", acc.name, " = ",
                                               CombineFunction(acc.reduction->kind), "(total_",
                                               acc.name, ", ", acc.name, ");"));
      }
    }
    if (nest_.shape == NestShape::kBlocked) return;
    for (const Accumulator& acc : row_) {
      if (acc.member->position != position) continue;
      body_->SetMember(acc.member);
      const Reduction& r = *acc.reduction;
      if (r.kind == ReduceKind::kWelford) {
        const std::string state = body_->Define(0, absl::StrCat("tk::welford_reduce(", acc.name, ")"));
        for (int part = 0; part < 2; ++part) {
          if (r.results[part] < 0) continue;
          const std::string value = body_->Define(
              0, absl::StrCat(state, part == 0 ? ".mean" : ".m2"));
          body_->EmitRowResult(r.results[part], r.indices[part], {.name = value, .dtype = acc.dtype});
        }
        continue;
      }
      const DType dtype = IsArg(r.kind) ? kInt64 : acc.dtype;
      const char* function = r.kind == ReduceKind::kArgMax   ? "tk::argmax_reduce"
                             : r.kind == ReduceKind::kArgMin ? "tk::argmin_reduce"
                                                             : ReduceFunction(r.kind);
      const std::string total =
          IsArg(r.kind) ? absl::StrCat(function, "(", acc.name, ").index")
                        : absl::StrCat("tk::broadcast<1>(", function, "(", acc.name, "))");
      const std::string value = body_->Define(0, total);
      body_->EmitRowResult(r.results[0], r.indices[0], {.name = value, .dtype = dtype});
    }
  }

  std::string Pass(int position) {
    std::string text = DeclareRowAccumulators(position);
    if (!HasVectorLoop()) {
      EmitMembers(position, false);
      EmitRowResults(position);
      return text + Flush();
    }
    const int levels = body_->vector_level();
    EmitMembers(position, false);
    std::vector<std::vector<std::string>> lines;
    for (int level = 0; level <= levels; ++level) lines.push_back(body_->lines(level));
    std::vector<std::string> tail_lines;
    const bool needs_tail = NeedsTail();
    if (needs_tail) {
      EmitMembers(position, true);
      tail_lines = body_->lines(levels);
      for (int level = 0; level < levels; ++level) lines[level] = body_->lines(level);
    }
    body_->lines(0).clear();
    text += Indent(lines[0], 2);
    int depth = 2;
    const int first_inner = static_cast<int>(nest_.outer.size());
    for (int q = 0; q + 1 < levels; ++q) {
      absl::StrAppend(&text, std::string(2 * depth, ' '), "for (int64_t i", first_inner + q, " = 0; i",
                      first_inner + q, " < ", body_->ExtentText(nest_.inner[q]), "; ++i",
                      first_inner + q, ") {\n");
      ++depth;
      text += Indent(lines[q + 1], depth);
    }
    const std::string pad(2 * depth, ' '), loop = absl::StrCat("i", VectorLoop());
    const auto [first, last] = VectorRange();
    absl::StrAppend(&text, pad, "{\n", pad, "  [[maybe_unused]] const int64_t first = ", first,
                    ", last = ", last, ";\n", pad, "  int64_t ", loop, " = first;\n", pad, "  for (; ",
                    loop, " + W <= last; ", loop, " += W) {\n", Indent(lines[levels], depth + 2), pad,
                    "  }\n");
    if (needs_tail) {
      absl::StrAppend(&text, pad, "  if (", loop, " < last) {\n", pad,
                      "    const int64_t left = last - ", loop, ";\n", Indent(tail_lines, depth + 2),
                      pad, "  }\n");
    }
    absl::StrAppend(&text, pad, "}\n");
    for (int q = levels - 2; q >= 0; --q) {
      --depth;
      absl::StrAppend(&text, std::string(2 * depth, ' '), "}\n");
    }
    EmitRowResults(position);
    text += Flush();
    if (nest_.shape == NestShape::kBlocked) text += StoreBlock(position);
    return text;
  }

  bool NeedsTail() const {
    auto extent = nest_.inner.back().AsConstant();
    if (nest_.shape == NestShape::kFlat) return lanes_ > 1;
    return lanes_ > 1 && (!extent || *extent % lanes_ != 0);
  }

  std::pair<std::string, std::string> VectorRange() {
    if (nest_.shape == NestShape::kFlat) {
      return {absl::StrCat("unit * ", kFlatChunk),
              absl::StrCat("tk::min_index(", extent_, ", unit * ", kFlatChunk, " + ", kFlatChunk, ")")};
    }
    const std::string extent = body_->ExtentText(nest_.inner.back());
    if (nest_.shape == NestShape::kBlocked && blocks_ != "1") {
      return {absl::StrCat("block * ", kBlockColumns),
              absl::StrCat("tk::min_index(", extent, ", block * ", kBlockColumns, " + ", kBlockColumns,
                           ")")};
    }
    return {"0", extent};
  }

  // Writes a block's column accumulators to the reduction's result.
  std::string StoreBlock(int position) {
    std::string text;
    for (const Accumulator& acc : row_) {
      if (acc.member->position != position) continue;
      const auto [first, last] = VectorRange();
      body_->SetMember(acc.member);
      absl::StrAppend(&text, "    {\n      const int64_t first = ", first, ", last = ", last,
                      ";\n      for (int64_t i", VectorLoop(), " = first; i", VectorLoop(),
                      " < last; ++i", VectorLoop(), ") {\n");
      body_->EmitRowResult(acc.reduction->results[0], acc.reduction->indices[0],
                           {.name = absl::StrCat("tk::broadcast<1>(", acc.name, "[i", VectorLoop(),
                                                 " - first])"),
                            .dtype = acc.dtype});
      text += Indent(body_->lines(0), 4);
      body_->lines(0).clear();
      absl::StrAppend(&text, "      }\n    }\n");
    }
    return text;
  }

  // ---- Accumulators that outlive units

  std::string DeclarePrivate() {
    std::string text;
    const std::string lanes = HasVectorLoop() ? "W" : "1";
    for (const Accumulator& acc : private_) {
      const std::string identity = Identity(acc.reduction->kind, acc.dtype);
      if (IsColumns(acc)) {
        const std::string count = body_->ExtentText(sym::Product(nest_.inner));
        absl::StrAppend(&text, "  ", acc.type, "* const ", acc.name, " = reinterpret_cast<", acc.type,
                        "*>(scratch + ", acc.offset, ");\n  for (int64_t c = 0; c < ", count,
                        "; ++c) ", acc.name, "[c] = ", identity, ";\n");
      } else if (acc.member->has_inner) {
        absl::StrAppend(&text, "  auto total_", acc.name, " = tk::broadcast<", lanes, ">(", identity,
                        ");\n");
      } else {
        absl::StrAppend(&text, "  auto ", acc.name, " = tk::broadcast<1>(", identity, ");\n");
      }
    }
    return text;
  }

  std::string SavePrivate() {
    std::string text;
    for (const Accumulator& acc : private_) {
      if (IsColumns(acc)) continue;
      const std::string value =
          acc.member->has_inner
              ? absl::StrCat(ReduceFunction(acc.reduction->kind), "(total_", acc.name, ")")
              : absl::StrCat("tk::get(", acc.name, ", 0)");
      absl::StrAppend(&text, "  *reinterpret_cast<", acc.type, "*>(scratch + ", acc.offset, ") = ",
                      value, ";\n");
    }
    return text;
  }

  std::string Finish() {
    std::string text;
    for (const Accumulator& acc : private_) {
      const Reduction& r = *acc.reduction;
      const BufferId result = r.results[0];
      interface_->MarkWritten(result);
      const std::string storage = StorageType(program_.buffers[result].dtype);
      const std::string pointer = absl::StrCat("static_cast<", storage, "*>(args->buffers[",
                                               interface_->Buffer(result), "])");
      const std::string combine = CombineFunction(r.kind);
      body_->SetMember(acc.member);
      absl::StrAppend(&text, "  {\n    ", storage, "* const out = ", pointer,
                      ";\n    const auto part = [&](int64_t task) {\n      return reinterpret_cast<const ",
                      acc.type, "*>(scratch + task * stride + ", acc.offset, ");\n    };\n");
      if (!IsColumns(acc)) {
        absl::StrAppend(&text, "    auto total = tk::load<", acc.type, ", 1>(part(0));\n",
                        "    for (int64_t task = 1; task < tasks; ++task) total = ", combine,
                        "(total, tk::load<", acc.type, ", 1>(part(task)));\n    tk::store<", storage,
                        ", 1>(out + ", body_->ScalarText(r.indices[0]), ", total);\n  }\n");
        continue;
      }
      const int first_inner = static_cast<int>(nest_.outer.size());
      std::string pad = "    ";
      for (size_t q = 0; q + 1 < nest_.inner.size(); ++q) {
        const std::string loop = absl::StrCat("i", first_inner + q);
        absl::StrAppend(&text, pad, "for (int64_t ", loop, " = 0; ", loop, " < ",
                        body_->ExtentText(nest_.inner[q]), "; ++", loop, ")\n");
        pad += "  ";
      }
      const std::string loop = absl::StrCat("i", VectorLoop()), at = body_->InnerPosition();
      absl::StrAppend(&text, pad, "for (int64_t ", loop, " = 0; ", loop, " < ",
                      body_->ExtentText(nest_.inner.back()), "; ", loop, " += W) {\n", pad,
                      "  const int64_t left = tk::min_index(W, ", body_->ExtentText(nest_.inner.back()),
                      " - ", loop, ");\n", pad, "  auto total = tk::load_tail<", acc.type,
                      ", W>(part(0) + ", at, ", left);\n", pad,
                      "  for (int64_t task = 1; task < tasks; ++task) total = ", combine,
                      "(total, tk::load_tail<", acc.type, ", W>(part(task) + ", at, ", left));\n");
      const auto step = sym::LinearCoefficient(r.indices[0], {sym::AtomKind::kLoop, VectorLoop()});
      const std::string index = body_->ScalarText(r.indices[0]);
      if (step && step->Is(1)) {
        absl::StrAppend(&text, pad, "  tk::store_tail<", storage, ", W>(out + ", index, ", total, left);\n");
      } else {
        TENSORD_CHECK(step.has_value(), "a column result without a step");
        absl::StrAppend(&text, pad, "  tk::store_strided_tail<", storage, ", W>(out + ", index, ", ",
                        body_->ScalarText(*step), ", total, left);\n");
      }
      absl::StrAppend(&text, pad, "}\n  }\n");
    }
    std::string head = absl::StrCat("static void ", name_,
                                    "_finish(const TensordKernelArgs* args, int64_t tasks, int64_t "
                                    "stride) {\n  [[maybe_unused]] constexpr int W = tk::kLanes;\n"
                                    "  const char* const scratch = static_cast<const char*>("
                                    "args->scratch);\n");
    for (size_t i = 0; i < interface_->integers().size(); ++i) {
      absl::StrAppend(&head, "  [[maybe_unused]] const int64_t n", i, " = args->integers[", i, "];\n");
    }
    return head + text + "}\n";
  }

  const Program& program_;
  Nest nest_;
  std::string name_;
  int lanes_;
  KernelInterface* interface_;
  std::optional<BodyEmitter> body_;
  std::vector<Accumulator> row_;      // live within a unit
  std::vector<Accumulator> private_;  // live across units, one set per task
  std::string extent_, blocks_;
};

}  // namespace

NestText EmitNest(const Program& program, const Nest& nest, const std::string& name, int lanes,
                  KernelInterface* interface) {
  return NestWriter(program, nest, name, lanes, interface).Write();
}

}  // namespace tensord::compiler
