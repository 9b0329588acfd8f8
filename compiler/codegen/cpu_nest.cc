#include "compiler/codegen/cpu_nest.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>

#include "compiler/codegen/cpp_text.h"
#include "compiler/codegen/cpu_accumulators.h"
#include "compiler/codegen/cpu_body.h"

namespace tensord::compiler {
namespace {

std::string Indent(const std::vector<std::string>& lines, int depth) {
  std::string text;
  for (const std::string& line : lines)
    absl::StrAppend(&text, std::string(2 * depth, ' '), line, "\n");
  return text;
}

class NestWriter {
 public:
  NestWriter(const Program& program, const Nest& nest, const CpuPlan& plan, std::string name,
             KernelInterface* interface)
      : nest_(nest),
        plan_(plan),
        name_(std::move(name)),
        lanes_(plan.lanes),
        body_(program, nest_, plan, interface),
        accumulators_(program, nest_, plan, &body_, interface) {}

  NestText Write() {
    NestText text;
    text.units = Units();
    text.work = Work();
    const std::string decode = DecodeUnit(), unit_body = UnitBody(),
                      declare = accumulators_.DeclarePrivate(), save = accumulators_.SavePrivate();
    absl::StrAppend(&text.function, "static void ", name_,
                    "([[maybe_unused]] const TensordKernelArgs* args, int64_t begin, int64_t end, "
                    "[[maybe_unused]] char* scratch) {\n"
                    "  [[maybe_unused]] constexpr int W = tk::kLanes;\n",
                    body_.Declarations(), declare,
                    "  for (int64_t unit = begin; unit < end; ++unit) {\n", decode, unit_body,
                    "  }\n", save, "}\n");
    if (accumulators_.HasPrivate()) text.finish = accumulators_.Finish(name_);
    return text;
  }

 private:
  int VectorLoop() const { return static_cast<int>(nest_.outer.size() + nest_.inner.size()) - 1; }
  bool Transposes() const { return plan_.As<CpuTransposedRows>() != nullptr; }
  bool HasVectorLoop() const { return !nest_.inner.empty(); }
  std::string VectorName() const { return absl::StrCat("i", VectorLoop()); }

  // ---- Units

  std::string Units() {
    const Expr outer = sym::Product(nest_.outer);
    if (const auto* flat = plan_.As<CpuFlat>()) {
      extent_ = body_.ArgumentText(nest_.inner[0]);
      return absl::StrCat("(", extent_, " + ", flat->chunk - 1, ") / ", flat->chunk);
    }
    if (const auto* blocks = plan_.As<CpuColumnBlocks>()) {
      blocks_ = absl::StrCat("((", body_.ExtentText(nest_.inner.back()), " + ", blocks->columns - 1,
                             ") / ", blocks->columns, ")");
    } else if (Transposes()) {
      const std::vector<Expr> rest(nest_.outer.begin(), nest_.outer.end() - 1);
      blocks_ = absl::StrCat("((", body_.ExtentText(nest_.outer.back()), " + ", lanes_ - 1, ") / ",
                             lanes_, ")");
      return absl::StrCat(body_.ArgumentText(sym::Product(rest)), " * ", blocks_);
    }
    const std::string rows = body_.ArgumentText(outer);
    return blocks_.empty() ? rows : absl::StrCat(rows, " * ", blocks_);
  }

  std::string Work() {
    if (plan_.As<CpuFlat>() != nullptr) return absl::StrCat(extent_, " * ", plan_.cost);
    return absl::StrCat(body_.ArgumentText(sym::Product(nest_.outer)), " * ", plan_.cost);
  }

  // The outer loop variables from the unit's number.
  std::string DecodeUnit() {
    std::string text, row = "unit";
    if (!blocks_.empty()) {
      absl::StrAppend(&text, "    const int64_t block = unit % ", blocks_,
                      ";\n    [[maybe_unused]] const int64_t row = unit / ", blocks_, ";\n");
      row = "row";
    }
    Expr inside(1);
    const int loops = static_cast<int>(nest_.outer.size()) - (Transposes() ? 1 : 0);
    for (int d = loops - 1; d >= 0; --d) {
      std::string value =
          inside.Is(1) ? row : absl::StrCat(row, " / (", body_.ScalarText(inside), ")");
      if (d > 0) value = absl::StrCat(value, " % ", body_.ExtentText(nest_.outer[d]));
      absl::StrAppend(&text, "    [[maybe_unused]] const int64_t i", d, " = ", value, ";\n");
      inside *= nest_.outer[d];
    }
    return text;
  }

  // ---- The inside of a unit

  std::string UnitBody() {
    if (Transposes()) return TransposingBody();
    std::string text;
    std::set<int> positions;
    for (const NestMember& member : nest_.members) positions.insert(member.position);
    for (int position : positions)
      text += position % 2 == 1 ? Pass(position) : RowStatements(position);
    return text;
  }

  std::string RowStatements(int position) {
    for (const NestMember& member : nest_.members) {
      if (member.position != position) continue;
      body_.SetMember(&member);
      body_.BeginPass(true);  // scalars only; loops are not entered
      for (const Store& store : member.loops.stores) body_.EmitStore(store, false);
      accumulators_.AccumulateRow(member);
    }
    return Flush();
  }

  std::string Flush() {
    std::string text = Indent(body_.lines(0), 2);
    body_.lines(0).clear();
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
  void EmitMembers(int position, bool tail, int copy) {
    body_.BeginPass(tail);
    for (const NestMember& member : nest_.members) {
      if (member.position != position) continue;
      body_.SetMember(&member);
      for (const Store& store : member.loops.stores) {
        body_.EmitStore(store, ReadLater(store.buffer, position));
      }
      accumulators_.Accumulate(member, tail, copy);
    }
  }

  std::string Pass(int position) {
    const int levels = body_.vector_level();
    if (!HasVectorLoop()) {
      std::string text = accumulators_.DeclareRow(position, 1);
      EmitMembers(position, false, 0);
      accumulators_.EmitRowResults(position, 1);
      return text + Flush();
    }
    const int copies = plan_.CopiesAt(position);
    std::string text = accumulators_.DeclareRow(position, copies);
    std::vector<std::string> unrolled;  // the vector loop's inside, once per copy
    for (int copy = 1; copy < copies; ++copy) {
      EmitMembers(position, false, copy);
      unrolled.push_back(Indent(body_.lines(levels), levels + 4));
    }
    EmitMembers(position, false, 0);
    const std::vector<std::string> full_lines = body_.lines(levels);
    std::vector<std::string> tail_lines;
    if (NeedsTail()) {
      EmitMembers(position, true, 0);
      tail_lines = body_.lines(levels);
    }
    text += Flush();
    int depth = 2;
    for (int q = 0; q + 1 < levels; ++q) {
      const std::string loop = absl::StrCat("i", nest_.outer.size() + q);
      absl::StrAppend(&text, std::string(2 * depth, ' '), "for (int64_t ", loop, " = 0; ", loop,
                      " < ", body_.ExtentText(nest_.inner[q]), "; ++", loop, ") {\n");
      ++depth;
      text += Indent(body_.lines(q + 1), depth);
    }
    text += VectorLoopText(depth, full_lines, tail_lines, unrolled);
    while (depth > 2) absl::StrAppend(&text, std::string(2 * --depth, ' '), "}\n");
    accumulators_.EmitRowResults(position, copies);
    text += Flush();
    if (nest_.shape == NestShape::kBlocked) {
      const auto [first, last] = VectorRange();
      text += accumulators_.StoreBlock(position, first, last);
    }
    return text;
  }

  std::string VectorLoopText(int depth, const std::vector<std::string>& full,
                             const std::vector<std::string>& tail,
                             const std::vector<std::string>& unrolled) {
    const std::string pad(2 * depth, ' '), loop = VectorName();
    const auto [first, last] = VectorRange();
    std::string text =
        absl::StrCat(pad, "{\n", pad, "  [[maybe_unused]] const int64_t first = ", first,
                     ", last = ", last, ";\n", pad, "  int64_t ", loop, " = first;\n");
    if (!unrolled.empty()) {
      // Copy 0 runs last, so that its text is the same as in the plain loop.
      const size_t copies = unrolled.size() + 1;
      absl::StrAppend(&text, pad, "  for (; ", loop, " + ", copies, " * W <= last; ", loop,
                      " += ", copies, " * W) {\n", pad, "    const int64_t base = ", loop, ";\n");
      for (size_t copy = 0; copy < copies; ++copy) {
        absl::StrAppend(&text, pad, "    {\n", pad, "      const int64_t ", loop, " = base + ",
                        copy, " * W;\n", copy == 0 ? Indent(full, depth + 3) : unrolled[copy - 1],
                        pad, "    }\n");
      }
      absl::StrAppend(&text, pad, "  }\n");
    }
    absl::StrAppend(&text, pad, "  for (; ", loop, " + W <= last; ", loop, " += W) {\n",
                    Indent(full, depth + 2), pad, "  }\n");
    if (!tail.empty()) {
      absl::StrAppend(&text, pad, "  if (", loop, " < last) {\n", pad,
                      "    const int64_t left = last - ", loop, ";\n", Indent(tail, depth + 2), pad,
                      "  }\n");
    }
    return absl::StrCat(text, pad, "}\n");
  }

  bool NeedsTail() const {
    if (nest_.shape == NestShape::kFlat) return lanes_ > 1;
    auto extent = nest_.inner.back().AsConstant();
    return lanes_ > 1 && (!extent || *extent % lanes_ != 0);
  }

  std::pair<std::string, std::string> VectorRange() {
    if (const auto* flat = plan_.As<CpuFlat>()) {
      const int64_t chunk = flat->chunk;
      return {absl::StrCat("unit * ", chunk),
              absl::StrCat("tk::min_index(", extent_, ", unit * ", chunk, " + ", chunk, ")")};
    }
    const std::string extent = body_.ExtentText(nest_.inner.back());
    if (Transposes()) return {"column", extent};
    if (const auto* blocks = plan_.As<CpuColumnBlocks>()) {
      const int64_t columns = blocks->columns;
      return {absl::StrCat("block * ", columns),
              absl::StrCat("tk::min_index(", extent, ", block * ", columns, " + ", columns, ")")};
    }
    return {"0", extent};
  }

  // ---- Transposed operands
  //
  // Where a load steps along the last outer loop and not along the vector loop, units are blocks of
  // W rows: a W x W tile of the operand is transposed into a local array, from which the rows are
  // read.

  std::string TransposingBody() {
    const std::string row = absl::StrCat("i", nest_.outer.size() - 1), column = VectorName();
    const std::string rows = body_.ExtentText(nest_.outer.back());
    body_.BeginTiles();
    EmitMembers(1, false, 0);
    const std::string tiled = Indent(body_.lines(0), 5) + Indent(body_.lines(1), 5);
    const std::string tiles = Indent(body_.EndTiles(), 5);
    const std::string plain = Pass(1);
    return absl::StrCat(
        "    const int64_t first_row = block * W, last_row = tk::min_index(", rows,
        ", first_row + W);\n    int64_t column = 0;\n    if (last_row - first_row == W) {\n"
        "      for (; column + W <= ",
        body_.ExtentText(nest_.inner[0]),
        "; column += W) {\n"
        "        {\n          const int64_t ",
        row, " = first_row, ", column, " = column;\n", tiles, "        }\n        for (int64_t ",
        row, " = first_row; ", row, " < last_row; ++", row,
        ") {\n          [[maybe_unused]] const int64_t ", column, " = column;\n", tiled,
        "        }\n      }\n    }\n    for (int64_t ", row, " = first_row; ", row,
        " < last_row; ++", row, ") {\n", plain, "    }\n");
  }

  const Nest& nest_;
  const CpuPlan& plan_;
  std::string name_;
  int lanes_;
  CpuBody body_;
  AccumulatorEmitter accumulators_;
  std::string extent_;  // of a flat nest
  std::string blocks_;  // how many blocks a row of units has; empty without blocks
};

}  // namespace

NestText EmitNest(const Program& program, const Nest& nest, const CpuPlan& plan,
                  const std::string& name, KernelInterface* interface) {
  return NestWriter(program, nest, plan, name, interface).Write();
}

}  // namespace tensord::compiler
