#include "compiler/codegen/cuda_nest.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>

#include "compiler/codegen/cpp_text.h"
#include "compiler/schedule/cuda/widths.h"

namespace tensord::compiler {
namespace {

std::string Indent(const std::vector<std::string>& lines, int depth) {
  std::string text;
  for (const std::string& line : lines)
    absl::StrAppend(&text, std::string(2 * depth, ' '), line, "\n");
  return text;
}

class CudaNestWriter {
 public:
  CudaNestWriter(const Program& program, const Nest& nest, const CudaPlan& plan, std::string name,
                 KernelInterface* interface)
      : nest_(nest),
        plan_(plan),
        name_(std::move(name)),
        body_(program, nest_, interface, plan_),
        accumulators_(program, nest_, plan_, &body_, interface) {}

  CudaNestText Write() {
    const std::string work = Work();
    const std::string declare = accumulators_.DeclarePrivate(), save = accumulators_.SavePrivate();
    CudaNestText text;
    text.finishes = accumulators_.Finish(name_);
    std::string end;
    if (plan_.combines_in_last_block() && !text.finishes.empty()) {
      end = accumulators_.FinishInLastBlock(text.finishes);
      for (const FinishText& finish : text.finishes) text.function += finish.text + "\n";
      text.finishes.clear();
    }
    absl::StrAppend(&text.function, "static __device__ __forceinline__ void ", name_,
                    "([[maybe_unused]] const Args& args, [[maybe_unused]] const int block, "
                    "[[maybe_unused]] const int blocks, [[maybe_unused]] tk::GroupMemory& shared",
                    ServesMany() ? ", [[maybe_unused]] const int first_buffer, "
                                   "[[maybe_unused]] const int first_integer"
                                 : "",
                    ") {\n  [[maybe_unused]] constexpr int W = ", plan_.width,
                    ", T = ", plan_.threads, ", G = ", plan_.G(), ";\n");
    text.shared_bytes = body_.shared_bytes();
    if (const int bytes = accumulators_.SharedBytes(); bytes > 0) {
      // Not static: nests of one launch would have theirs beside each other.
      absl::StrAppend(&text.function, "  char* const tile = shared_rows + ", text.shared_bytes,
                      ";\n");
      text.shared_bytes += bytes;
    }
    absl::StrAppend(&text.function, body_.Declarations(), Threads(), declare, work, save, end,
                    "}\n");
    return text;
  }

 private:
  bool HasVectorLoop() const { return !nest_.inner.empty(); }
  int VectorsPerThread() const {
    const auto* elements = plan_.As<CudaElements>();
    return elements != nullptr ? elements->vectors_per_thread : 1;
  }
  bool ServesMany() const {
    const auto* elements = plan_.As<CudaElements>();
    return elements != nullptr && elements->serves_many;
  }
  int FirstInner() const { return static_cast<int>(nest_.outer.size()); }

  // Vectors of a row (kColumns: of the columns), and rows.
  Expr Vectors() const {
    if (!HasVectorLoop()) return Expr(1);
    const Expr extent = plan_.Is<CudaColumns>() ? nest_.inner.back() : sym::Product(nest_.inner);
    if (plan_.is_interleaved() || plan_.is_partial())
      return sym::CeilDiv(extent, Expr(plan_.width));
    return sym::FloorDiv(extent, Expr(plan_.width));
  }
  Expr Rows() const { return sym::Product(nest_.outer); }

  // Where a thread stands.
  std::string Threads() {
    if (plan_.Is<CudaTiles>()) return "";
    std::string text = absl::StrCat(
        "  [[maybe_unused]] const index rows = ", body_.ExtentText(Rows()),
        ", vectors = ", ServesMany() ? body_.ArgumentText(Vectors()) : body_.ExtentText(Vectors()),
        ";\n");
    if (plan_.Is<CudaElements>() || plan_.Is<CudaColumns>()) return text;
    absl::StrAppend(&text, "  [[maybe_unused]] const int lane = threadIdx.x % G;\n");
    if (plan_.column_tiles() != nullptr) {
      absl::StrAppend(&text,
                      "  const int tiles = (vectors + G - 1) / G, copies = blocks / tiles, copy = "
                      "block / tiles;\n  [[maybe_unused]] const index first_vector = block % tiles "
                      "* G;\n");
    } else {
      absl::StrAppend(&text,
                      "  [[maybe_unused]] const int copies = blocks, copy = block;\n"
                      "  [[maybe_unused]] constexpr index first_vector = 0;\n");
    }
    return text;
  }

  std::string Work() {
    if (plan_.Is<CudaElements>()) return Elements();
    if (plan_.Is<CudaTiles>()) return Tiles();
    if (plan_.Is<CudaColumns>()) return Columns();
    if (plan_.Is<CudaSplit>()) return SplitRow();
    if (plan_.Is<CudaSweep>() && nest_.shape == NestShape::kFlat) return SweepElements();
    return plan_.loops_rows() ? SweepRows() : OneRow();
  }

  // ---- Units

  // The innermost statements of a pass, scalars of inner loops included.
  std::string InnerLines(int depth) {
    std::string text;
    for (int level = 1; level <= body_.vector_level(); ++level) {
      text += Indent(body_.lines(level), depth);
    }
    return text;
  }

  std::string Flush(int depth) {
    std::string text = Indent(body_.lines(0), depth);
    body_.lines(0).clear();
    return text;
  }

  std::string DecodeRow(const std::string& row, const std::string& indent) {
    return DecodeLoops(&body_, nest_.outer, 0, row, indent);
  }
  std::string DecodeVector(const std::string& vector, const std::string& indent) {
    return DecodeLoops(&body_, nest_.inner, FirstInner(), vector, indent, plan_.width);
  }

  void EmitMembers(int position, bool tail = false) {
    body_.BeginPass(tail);
    for (const NestMember& member : nest_.members) {
      if (member.position != position) continue;
      body_.SetMember(&member);
      for (const Store& store : member.loops.stores) {
        body_.EmitStore(store, ReadLater(store.buffer, position));
      }
      accumulators_.Accumulate(member);
    }
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

  // All of a thread's vectors at once, whatever loops they lie in: row and vector from one number.
  // What depends on no loop goes to `before`.
  std::string UnitOfElement(int depth, std::string* before) {
    const std::string indent(2 * depth, ' ');
    std::string text;
    for (const NestMember& member : nest_.members) positions_.insert(member.position);
    for (int position : positions_) EmitMembers(position);
    std::string lines;
    if (nest_.outer.empty()) {
      *before = Flush(1);
    } else {
      lines = Flush(depth);
    }
    lines += InnerLines(depth);
    if (HasVectorLoop()) {
      // A size that is an argument would make two divisions of it.
      absl::StrAppend(&text, indent, "[[maybe_unused]] const index ",
                      nest_.outer.empty() ? "row = 0, q = unit;\n"
                                          : "row = unit / vectors, q = unit % vectors;\n",
                      DecodeRow("row", indent), DecodeVector("q", indent));
    } else {
      absl::StrAppend(&text, DecodeRow("unit", indent));
    }
    return text + lines;
  }

  std::string Elements() {
    if (VectorsPerThread() > 1) return SweepElements();
    std::string before;
    const std::string unit = UnitOfElement(1, &before);
    return absl::StrCat(
        "  const index unit = static_cast<index>(block) * T + threadIdx.x;\n"
        "  if (unit >= rows * vectors) return;\n",
        before, unit);
  }

  std::string Tiles() {
    EmitMembers(nest_.members[0].position);
    const std::string scalars = Flush(1), lines = InnerLines(3);
    return scalars + TileText(&body_, nest_, *plan_.As<CudaTiles>(), plan_.width, plan_.threads,
                              body_.tile_fills(), lines);
  }

  std::string SweepElements() {
    std::string before;
    const std::string unit = UnitOfElement(2, &before);
    return absl::StrCat(
        before,
        // Loads of several vectors under way at once.
        VectorsPerThread() > 1 ? "#pragma unroll 2\n" : "",
        "  for (index unit = static_cast<index>(block) * T + threadIdx.x; unit < rows * vectors;\n"
        "       unit += static_cast<index>(blocks) * T) {\n",
        unit, "  }\n");
  }

  std::string OneRow() {
    const std::string unit = RowBody(1);
    return absl::StrCat(
        "  const index row = static_cast<index>(block) * (T / G) + threadIdx.x / G;\n",
        plan_.groups() > 1 ? "  if (row >= rows) return;\n" : "", DecodeRow("row", "  "), unit);
  }

  std::string SweepRows() {
    const std::string unit = RowBody(2), decode = DecodeRow("row", "    ");
    const std::string first = "static_cast<index>(copy) * (T / G) + threadIdx.x / G";
    const std::string step = "static_cast<index>(copies) * (T / G)";
    if (plan_.column_tiles() == nullptr && !body_.row_ahead().empty()) {
      const CudaBody::RowAhead& ahead = body_.row_ahead();
      const std::string load_vectors =
          DecodeVector("q", "        ") + Indent(ahead.load_vectors, 4);
      return absl::StrCat(
          "  const auto load_row = [&](const index row) {\n", decode, Indent(ahead.load_scalars, 2),
          HeldVectors("    ", load_vectors), "  };\n", "  index row = ", first,
          ";\n  if (row < rows) load_row(row);\n  for (; row < rows; row += ", step, ") {\n",
          Indent(ahead.take_scalars, 2), "#pragma unroll\n    for (int k = 0; k < ",
          plan_.register_vectors(), "; ++k) {\n", Indent(ahead.take_vectors, 3),
          "    }\n    load_row(tk::min_index(row + ", step, ", rows - 1));\n", decode, unit,
          "  }\n");
    }
    if (plan_.column_tiles() == nullptr) {
      return absl::StrCat("  for (index row = ", first, "; row < rows;\n       row += ", step,
                          ") {\n", decode, unit, "  }\n");
    }
    const int at_once = plan_.column_tiles()->rows_in_flight;
    // Whole batches first: a bound between two rows would keep the second one's loads waiting. A
    // thread beyond the last column has no rows.
    return absl::StrCat(
        "  const index step = ", step, ", end = ", MayBeBeyond() ? "first_vector + lane" : "0",
        " < vectors ? rows : 0;\n  index next = ", first, ";\n  for (; end - next > ", at_once - 1,
        " * step; next += ", at_once, " * step) {\n#pragma unroll\n    for (int u = 0; u < ",
        at_once, "; ++u) {\n    [[maybe_unused]] const index row = next + u * step;\n", decode,
        unit, "    }\n  }\n  for (; next < end; next += step) {\n",
        "    [[maybe_unused]] const index row = next;\n", decode, unit, "  }\n");
  }

  std::string SplitRow() {
    const std::string unit = RowBody(1);
    const int parts = plan_.As<CudaSplit>()->parts;
    return absl::StrCat("  const index row = block / ", parts, ", part = block % ", parts,
                        ";\n  const index share = (vectors + ", parts - 1, ") / ", parts,
                        ";\n  const index first = part * share, last = tk::min_index(vectors, "
                        "first + share);\n",
                        DecodeRow("row", "  "), unit);
  }

  // ---- The inside of a row

  std::string RowBody(int depth) {
    std::string text;
    std::set<int> positions;
    for (const NestMember& member : nest_.members) positions.insert(member.position);
    for (int position : positions) {
      if (position % 2 == 1) {
        text += Pass(position, depth);
      } else if (!plan_.Is<CudaSplit>()) {
        text += RowStatements(position, depth);
      }
    }
    // Values that threads of the block left for each other are done with before the next row.
    if (plan_.register_vectors() == 0 && plan_.loops_rows() && plan_.G() > 32) {
      absl::StrAppend(&text, std::string(2 * depth, ' '), "__syncthreads();\n");
    }
    return text;
  }

  std::string RowStatements(int position, int depth) {
    for (const NestMember& member : nest_.members) {
      if (member.position != position) continue;
      body_.BeginPass(false);
      body_.SetMember(&member);
      for (const Store& store : member.loops.stores) body_.EmitStore(store, false);
      accumulators_.AccumulateRow(member);
    }
    return Flush(depth);
  }

  std::string Pass(int position, int depth) {
    const std::string indent(2 * depth, ' ');
    std::string text = accumulators_.DeclareRow(position);
    if (plan_.is_interleaved() || plan_.is_partial()) {
      text += LoopsWithTail(position, depth);
      accumulators_.EmitRowResults(position);
      return text + Flush(depth);
    }
    EmitMembers(position);
    const std::string decode = DecodeVector("q", indent + "    ");
    const std::string lines = InnerLines(depth + 2);
    if (!body_.first_loads().empty()) {
      text += HeldVectors(indent, decode + Indent(body_.first_loads(), depth + 2));
    }
    text += Flush(depth);
    if (!HasVectorLoop()) {
      // The row is one element, which every thread of its group of one has.
      text += lines;
    } else if (plan_.register_vectors() > 0) {
      if (!body_.found_loads().empty()) {
        text += HeldVectors(indent, decode + Indent(body_.found_loads(), depth + 2));
      }
      text += HeldVectors(indent, decode + lines);
    } else {
      const bool split = plan_.Is<CudaSplit>();
      // Loads of several vectors under way at once, where the row is run through once.
      if (RunsOnce()) text += "#pragma unroll 4\n";
      absl::StrAppend(&text, indent, "for (index q = ", split ? "first + lane" : "lane", "; q < ",
                      split ? "last" : "vectors", "; q += G) {\n", indent, "  {\n", decode, lines,
                      indent, "  }\n", indent, "}\n");
    }
    accumulators_.EmitRowResults(position);
    return text + Flush(depth);
  }

  // `lines`, for each vector that a thread holds of its row.
  std::string HeldVectors(const std::string& indent, const std::string& lines) const {
    return absl::StrCat(
        "#pragma unroll\n", indent, "for (int k = 0; k < ", plan_.register_vectors(), "; ++k) {\n",
        indent, "  const index q = first_vector + lane + k * G;\n", indent, "  ",
        AllInRange() ? "" : "if (q < vectors) ", "{\n", lines, indent, "  }\n", indent, "}\n");
  }

  // Whole vectors first, then the lanes that are left.
  std::string LoopsWithTail(int position, int depth) {
    const std::string indent(2 * depth, ' ');
    EmitMembers(position);
    const std::string whole = InnerLines(depth + 2);
    EmitMembers(position, /*tail=*/true);
    const std::string rest = InnerLines(depth + 3);
    std::string text = Flush(depth);
    const std::string loop = absl::StrCat("i", FirstInner());
    const std::string extent = body_.ExtentText(nest_.inner[0]);
    // The last element that a vector touches, and how many are left of one that is not whole.
    const std::string last = absl::StrCat(loop, plan_.is_interleaved() ? " + (W - 1) * G"
                                                : plan_.is_unaligned() ? " + 2 * (W - 1)"
                                                                       : " + (W - 1)");
    const std::string left = plan_.is_interleaved()
                                 ? absl::StrCat("(", extent, " - ", loop, " + G - 1) / G")
                                 : absl::StrCat(extent, " - ", loop);
    const std::string tail = absl::StrCat("if (", loop, " < ", extent, ") {\n", indent,
                                          "    [[maybe_unused]] const index left = ", left, ";\n",
                                          rest, indent, "  }\n");
    if (plan_.register_vectors() == 0) {
      const std::string first = plan_.is_interleaved() ? "lane"
                                : plan_.is_peeled()    ? "lead + lane * W"
                                                       : "lane * W";
      absl::StrAppend(
          &text, indent, "{\n", plan_.is_peeled() ? Lead(indent) : "", indent, "  index ", loop,
          " = ", first, ";\n", plan_.is_unaligned() && RunsOnce() ? "#pragma unroll 4\n" : "",
          indent, "  for (; ", last, " < ", extent, "; ", loop, " += G * W) {\n", whole, indent,
          "  }\n", indent, "  ", plan_.is_peeled() ? PeeledEnds(loop, extent, rest, indent) : tail,
          indent, "}\n");
      return text;
    }
    const int64_t of_group = int64_t{plan_.G()} * plan_.width;
    const int64_t beyond = plan_.is_unaligned() ? plan_.width - 1 : 0;
    const int64_t filled =
        plan_.column_tiles() != nullptr
            ? 0
            : std::max<int64_t>(0, *nest_.inner[0].AsConstant() - beyond) / of_group;
    const std::string start =
        absl::StrCat(indent, "  [[maybe_unused]] const index ", loop,
                     plan_.is_interleaved() ? " = (first_vector + k * G) * W + lane;\n"
                                            : " = (first_vector + k * G + lane) * W;\n");
    if (filled > 0) {
      absl::StrAppend(&text, "#pragma unroll\n", indent, "for (int k = 0; k < ", filled,
                      "; ++k) {\n", start, whole, indent, "}\n");
    }
    if (filled < plan_.register_vectors()) {
      absl::StrAppend(&text, "#pragma unroll\n", indent, "for (int k = ", filled, "; k < ",
                      plan_.register_vectors(), "; ++k) {\n", start, indent, "  ");
      // Interleaved lanes are nearly all partial at a row's end; of neighbours it is one thread's.
      if (plan_.is_partial() || plan_.column_tiles() != nullptr) {
        absl::StrAppend(&text, "if (", last, " < ", extent, ") {\n", whole, indent, "  } else ");
      }
      absl::StrAppend(&text, tail, indent, "}\n");
    }
    return text;
  }

  // How many elements of the row come before the first that the row's stores find aligned.
  std::string Lead(const std::string& indent) {
    const std::string start = body_.ScalarText(*StartOfStoredRow(nest_, plan_.width));
    return absl::StrCat(indent, "  const index lead = tk::min_index(-static_cast<index>(", start,
                        ") & (W - 1), ", body_.ExtentText(nest_.inner[0]), ");\n");
  }

  // The vectors of a peeled row that are not whole: behind the others, and the first elements,
  // which are the first thread's.
  static std::string PeeledEnds(const std::string& loop, const std::string& extent,
                                const std::string& lines, const std::string& indent) {
    return absl::StrCat("for (int end = 0; end < 2; ++end) {\n", indent, "    if (end == 1) ", loop,
                        " = lane == 0 ? 0 : ", extent, ";\n", indent,
                        "    const index left = end == 0 ? ", extent, " - ", loop, " : lead;\n",
                        indent, "    if (", loop, " < ", extent, " && left > 0) {\n", lines, indent,
                        "    }\n", indent, "  }\n");
  }

  bool RunsOnce() const {
    return std::all_of(nest_.members.begin(), nest_.members.end(), [](const NestMember& m) {
      return m.has_inner == (m.position == 1) && !(m.has_inner && m.reduces_outer);
    });
  }

  bool AllInRange() const {
    const auto vectors = Vectors().AsConstant();
    return plan_.column_tiles() != nullptr ||
           (vectors && *vectors == int64_t{plan_.register_vectors()} * plan_.G());
  }
  // Of threads of a tile: the first lane of their vector. Tails look for themselves.
  bool MayBeBeyond() const { return !plan_.is_interleaved() && !plan_.is_partial(); }

  // ---- Columns: a thread runs through the reduced loops of its own

  std::string Columns() {
    const int position = nest_.members[0].position;
    std::string text = accumulators_.DeclareRow(position);
    EmitMembers(position);
    const std::string scalars = Flush(1);
    std::string decode = DecodeRow("row", "  ");
    const int levels = body_.vector_level();
    const std::string vector_loop = absl::StrCat("i", FirstInner() + levels - 1);
    std::string inside;
    int depth = 1;
    for (int q = 0; q + 1 < levels; ++q) {
      const std::string loop = absl::StrCat("i", FirstInner() + q);
      absl::StrAppend(&inside, std::string(2 * depth, ' '), "for (index ", loop, " = 0; ", loop,
                      " < ", body_.ExtentText(nest_.inner[q]), "; ++", loop, ") {\n");
      ++depth;
      inside += Indent(body_.lines(q + 1), depth);
    }
    if (levels > 0) inside += Indent(body_.lines(levels), depth);
    while (depth > 1) absl::StrAppend(&inside, std::string(2 * --depth, ' '), "}\n");
    body_.BeginPass(false);
    accumulators_.EmitColumnResults();
    const std::string results = Flush(1) + InnerLines(1);
    return absl::StrCat(
        "  const index unit = static_cast<index>(block) * T + threadIdx.x;\n"
        "  if (unit >= rows * vectors) return;\n"
        "  [[maybe_unused]] const index row = unit / vectors;\n",
        HasVectorLoop() ? absl::StrCat("  const index ", vector_loop, " = unit % vectors * W;\n")
                        : "",
        decode, text, scalars, inside, results);
  }

  const Nest& nest_;
  const CudaPlan& plan_;
  std::string name_;
  CudaBody body_;
  CudaAccumulators accumulators_;
  std::set<int> positions_;
};

}  // namespace

CudaNestText EmitCudaNest(const Program& program, const Nest& nest, const CudaPlan& plan,
                          const std::string& name, KernelInterface* interface) {
  return CudaNestWriter(program, nest, plan, name, interface).Write();
}

}  // namespace tensord::compiler
