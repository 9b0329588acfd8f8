// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cuda/rows.h"

#include <algorithm>
#include <utility>

#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/traits.h"
#include "compiler/schedule/cuda/widths.h"

namespace tensord::compiler {
namespace {

ir::Value Row() { return ir::IndexVar("row"); }
ir::Value RowCount() { return ir::IndexVar("rows"); }
ir::Value VectorCount() { return ir::IndexVar("vectors"); }
ir::Value FirstVector() { return ir::IndexVar("first_vector"); }
// Of a row, by loops over it.
ir::Value Vector() { return ir::IndexVar("q"); }

// The row of a group when blocks with these numbers take rows side by side.
ir::Value RowOf(const ir::Value& number) {
  return ir::CastTo(ir::kIndexType, number) * (BlockSize() / GroupSize()) +
         ir::Thread() / GroupSize();
}

bool IsScan(const ir::Statement& statement) {
  const auto* declare = std::get_if<ir::Declare>(&statement.node);
  if (declare == nullptr) return false;
  const auto* call = ir::As<ir::Call>(declare->bindings[0].value);
  return call != nullptr && call->function == "group_scan";
}

// A vector's statements, of which all threads run what leads to scans, and those whose vector
// exists the others.
ir::Block ScannedByAll(ir::Block statements) {
  const auto last = std::find_if(statements.rbegin(), statements.rend(), IsScan);
  const auto scanned = statements.rend() - last;  // of the statements, the first so many
  ir::Block together, rest;
  for (size_t i = 0; i < statements.size(); ++i) {
    const bool is_value = std::holds_alternative<ir::Declare>(statements[i].node);
    const bool is_before = static_cast<std::ptrdiff_t>(i) < scanned;
    (is_before && is_value ? together : rest).push_back(std::move(statements[i]));
  }
  together.push_back(ir::When(VectorExists(), std::move(rest)));
  return together;
}

ir::Statement Variable(const std::string& name, const ir::Value& value) {
  return {ir::Declare{
      .bindings = {{name, value}}, .type = ir::kIndexType, .mutability = ir::Declare::kVariable}};
}

}  // namespace

CudaRowLowering::CudaRowLowering(const Program& program, const Nest& nest, const CudaPlan& plan,
                                 std::string name, KernelInterface* interface)
    : NestLowering(nest, &body_, &accumulators_),
      plan_(plan),
      name_(std::move(name)),
      body_(program, nest_, interface, plan_),
      accumulators_(program, nest_, plan_, &body_, interface) {}

Expr CudaRowLowering::Vectors() const {
  if (!HasVectorLoop()) return Expr(1);
  const Expr extent = plan_.owns_columns() ? nest_.inner.back() : sym::Product(nest_.inner);
  const bool rounds_up = plan_.is_interleaved() || plan_.is_partial();
  return rounds_up ? sym::CeilDiv(extent, Expr(plan_.width))
                   : sym::FloorDiv(extent, Expr(plan_.width));
}

ir::Statement CudaRowLowering::ForRegisters(int64_t first, int64_t last, ir::Block body) {
  return {ir::For{.variable = "k",
                  .type = ir::kIntType,
                  .first = ir::Value(first),
                  .condition = VectorNumber() < ir::Value(last),
                  .step = 1,
                  .body = std::move(body),
                  .unroll = ir::For::kWhole}};
}

ir::Block CudaRowLowering::InnerLines() const {
  ir::Block block;
  for (int level = 1; level <= body_.vector_level(); ++level) ir::Append(&block, body_.at(level));
  return block;
}

ir::Block CudaRowLowering::DecodeRow(const ir::Value& row) {
  return DecodeLoops(&body_, {.extents = nest_.outer, .number = row});
}

ir::Block CudaRowLowering::DecodeVector() {
  return DecodeLoops(&body_, {.extents = nest_.inner,
                              .first_loop = FirstInner(),
                              .number = Vector(),
                              .last_width = plan_.width});
}

// ---- Rows

ir::Block CudaRowLowering::OneRow() {
  const ir::Block unit = RowBody();
  ir::Block block = {ir::LetIndex("row", RowOf(BlockNumber()))};
  if (plan_.groups() > 1) block.push_back(ir::When(Row() >= RowCount(), {{ir::Return{}}}));
  ir::Append(&block, DecodeRow(Row()));
  ir::Append(&block, unit);
  return block;
}

ir::Block CudaRowLowering::SweepRows() {
  ir::Block unit = RowBody();
  ir::Block decode = DecodeRow(Row());
  if (plan_.column_tiles() != nullptr) return SweepColumnTiles(decode, unit);
  if (!body_.prefetch().empty()) return SweepPrefetchedRows(decode, unit);
  ir::Append(&decode, unit);
  const ir::Value step =
      ir::CastTo(ir::kIndexType, ir::IntVar("copies")) * (BlockSize() / GroupSize());
  return {ir::Loop("row", RowOf(CopyNumber()), Row() < RowCount(), step, std::move(decode))};
}

// The loads of the next row are under way while the present one is worked on.
ir::Block CudaRowLowering::SweepPrefetchedRows(const ir::Block& decode, const ir::Block& unit) {
  const CudaBody::Prefetch& prefetch = body_.prefetch();
  ir::Block vectors = DecodeVector();
  ir::Append(&vectors, prefetch.load_vectors);
  ir::Block load = decode;
  ir::Append(&load, prefetch.load_scalars);
  load.push_back(ForVectors(std::move(vectors)));
  const auto load_row = [](const ir::Value& row) {
    return ir::Do(ir::CallOfFunction("load_row", {row}));
  };
  const ir::Value step =
      ir::CastTo(ir::kIndexType, ir::IntVar("copies")) * (BlockSize() / GroupSize());
  ir::Block body = prefetch.take_scalars;
  body.push_back(ForRegisters(0, plan_.register_vectors(), prefetch.take_vectors));
  body.push_back(load_row(ir::CallOf("min_index", {Row() + step, RowCount() - 1})));
  ir::Append(&body, decode);
  ir::Append(&body, unit);
  return {{ir::LocalFunction{.name = "load_row",
                             .parameters = {{"row", ir::kIndexType, true}},
                             .result = ir::kVoidType,
                             .body = std::move(load)}},
          Variable("row", RowOf(CopyNumber())),
          ir::When(Row() < RowCount(), {load_row(Row())}),
          ir::Loop("row", {}, Row() < RowCount(), step, std::move(body))};
}

// Whole batches first: a bound between two rows would keep the second one's loads waiting. A thread
// beyond the last column has no rows.
ir::Block CudaRowLowering::SweepColumnTiles(const ir::Block& decode, const ir::Block& unit) {
  const int at_once = plan_.column_tiles()->rows_in_flight;
  const ir::Value step = ir::IndexVar("step"), end = ir::IndexVar("end"),
                  next = ir::IndexVar("next"), u = ir::IntVar("u");
  // Tails look for themselves.
  const bool may_be_beyond = !plan_.is_interleaved() && !plan_.is_partial();
  const ir::Value first = may_be_beyond ? FirstVector() + LaneOfGroup() : ir::Value(0);
  const auto row = [&](const ir::Value& number) {
    ir::Block block = {ir::LetIndex("row", number)};
    ir::Append(&block, decode);
    ir::Append(&block, unit);
    return block;
  };
  const ir::Statement batch = {ir::For{.variable = "u",
                                       .type = ir::kIntType,
                                       .first = 0,
                                       .condition = u < at_once,
                                       .step = 1,
                                       .body = row(next + u * step),
                                       .unroll = ir::For::kWhole}};
  return {
      ir::DeclareAll(ir::kIndexType, {{"step", ir::CastTo(ir::kIndexType, ir::IntVar("copies")) *
                                                   (BlockSize() / GroupSize())},
                                      {"end", ir::Choose(first < VectorCount(), RowCount(), 0)}}),
      Variable("next", RowOf(CopyNumber())),
      ir::Loop("next", {}, end - next > ir::Value(at_once - 1) * step, ir::Value(at_once) * step,
               {batch}),
      ir::Loop("next", {}, next < end, step, row(next))};
}

ir::Block CudaRowLowering::PartOfRow(int parts) {
  const ir::Block unit = RowBody();
  ir::Block block = {ir::DeclareAll(
      ir::kIndexType, {{"row", BlockNumber() / parts}, {"part", BlockNumber() % parts}})};
  ir::Append(&block, ShareOf(VectorCount(), parts));
  ir::Append(&block, DecodeRow(Row()));
  ir::Append(&block, unit);
  return block;
}

ir::Block CudaRowLowering::ShareOf(const ir::Value& count, int parts) {
  const ir::Value share = ir::IndexVar("share"), first = ir::IndexVar("first");
  return {
      ir::LetIndex("share", (count + (parts - 1)) / parts),
      ir::DeclareAll(ir::kIndexType, {{"first", PartNumber() * share},
                                      {"last", ir::CallOf("min_index", {count, first + share})}})};
}

// ---- The inside of a row

ir::Block CudaRowLowering::RowBody() {
  ir::Block block;
  for (int position : Positions()) {
    if (position % 2 == 1) {
      ir::Append(&block, Pass(position));
    } else if (!plan_.Is<CudaSplit>()) {
      ir::Append(&block, RowStatements(position));
    }
  }
  // Values that threads of the block left for each other are done with before the next row.
  if (plan_.register_vectors() == 0 && plan_.loops_rows() && plan_.G() > kWarp) {
    block.push_back({ir::Barrier{}});
  }
  return block;
}

ir::Block CudaRowLowering::Pass(int position) {
  if (HasScansAt(nest_, position)) return ScanPass(position);
  ir::Block block = accumulators_.DeclareRow(position);
  if (plan_.is_interleaved() || plan_.is_partial()) {
    ir::Append(&block, LoopsWithTail(position));
    accumulators_.RowResults(position);
    ir::Append(&block, body_.TakeUnit());
    return block;
  }
  LowerMembers(position);
  const ir::Block decode = DecodeVector();
  const auto decoded = [&](const ir::Block& statements) {
    ir::Block vector = decode;
    ir::Append(&vector, statements);
    return vector;
  };
  const ir::Block lines = InnerLines();
  if (!body_.first_loads().empty()) block.push_back(ForVectors(decoded(body_.first_loads())));
  ir::Append(&block, body_.TakeUnit());
  if (!HasVectorLoop()) {
    // The row is one element, which every thread of its group of one has.
    ir::Append(&block, lines);
  } else if (plan_.register_vectors() > 0) {
    if (!body_.found_loads().empty()) block.push_back(ForVectors(decoded(body_.found_loads())));
    block.push_back(ForVectors(decoded(lines)));
  } else {
    const bool split = plan_.Is<CudaSplit>();
    block.push_back({ir::For{.variable = "q",
                             .first = split ? ir::IndexVar("first") + LaneOfGroup() : LaneOfGroup(),
                             .condition = Vector() < (split ? ir::IndexVar("last") : VectorCount()),
                             .step = GroupSize(),
                             .body = {{ir::Scope{decoded(lines)}}},
                             .unroll = plan_.vectors_in_flight()}});
  }
  accumulators_.RowResults(position);
  ir::Append(&block, body_.TakeUnit());
  return block;
}

void CudaRowLowering::LowerScanned(int position) {
  if (!body_.FindsTotals()) return LowerMembers(position);
  body_.BeginPass();
  for (const NestMember& member : nest_.members) body_.LowerTotals(member);
}

// The threads of the group meet in each scan, so they go through the vectors together. One whose
// vector is behind the row's end computes the last one up to the last scan, to which it adds
// nothing, and leaves the rest: before the owner of that one has stored it, for they meet in
// between.
ir::Block CudaRowLowering::ScanPass(int position) {
  const auto& rows = *plan_.As<CudaScanRows>();
  ir::Block block = accumulators_.DeclareRow(position);
  LowerScanned(position);
  const ir::Block decode = DecodeVector();
  ir::Block lines = InnerLines();
  const bool looks = LooksForVectors(rows), in_registers = plan_.register_vectors() > 0;
  const bool has_parts = rows.parts > 1;
  const ir::Value begin = has_parts ? ir::IndexVar("first") : ir::Value(0);
  const ir::Value end = has_parts ? ir::IndexVar("last") : VectorCount();
  if (looks) lines = ScannedByAll(std::move(lines));
  const ir::Value next = in_registers ? FirstVector() : ir::IndexVar("next");
  const ir::Value place = ir::IndexVar("place");
  const auto for_vectors = [&](const ir::Block& statements, bool scans) {
    const ir::Value first = next + VectorNumber() * GroupSize();
    ir::Block vector = {
        ir::LetIndex("place", first + LaneOfGroup()),
        ir::LetIndex("q", looks ? ir::CallOf("min_index", {place, end - 1}) : place)};
    if (looks && scans) vector.push_back(ir::Let("exists", place < end));
    ir::Append(&vector, decode);
    ir::Append(&vector, statements);
    if (!in_registers && scans) vector = {ir::When(first < end, std::move(vector))};
    return ForRegisters(0, in_registers ? plan_.register_vectors() : plan_.vectors_in_flight(),
                        {{ir::Scope{std::move(vector)}}});
  };
  ir::Block unit = body_.TakeUnit(), vectors;
  for (const ir::Block& loads : {body_.first_loads(), body_.found_loads()}) {
    if (!loads.empty()) vectors.push_back(for_vectors(loads, false));
  }
  vectors.push_back(for_vectors(lines, true));
  ir::Append(&block, unit);
  if (in_registers) {
    ir::Append(&block, vectors);
  } else {
    block.push_back(ir::Loop("next", begin, next < end,
                             GroupSize() * ir::Value(plan_.vectors_in_flight()),
                             std::move(vectors)));
  }
  accumulators_.RowResults(position);
  if (body_.FindsTotals()) body_.SaveTotals();
  ir::Append(&block, body_.TakeUnit());
  return block;
}

ir::Statement CudaRowLowering::ForVectors(ir::Block vector) const {
  const ir::Value number = FirstVector() + LaneOfGroup() + VectorNumber() * GroupSize();
  return ForRegisters(
      0, plan_.register_vectors(),
      {ir::LetIndex("q", number), plan_.group().whole_vectors == plan_.register_vectors()
                                      ? ir::Statement{ir::Scope{std::move(vector)}}
                                      : ir::When(Vector() < VectorCount(), std::move(vector))});
}

// A row's last vectors, of which not all lanes are elements.
struct CudaRowLowering::Tail {
  std::string name;  // of the loop
  ir::Value loop, extent;
  ir::Value last;        // the last element that a whole vector touches
  ir::Block statements;  // of a vector with `left` elements
  ir::If rest;           // what is left of the row
};

ir::Block CudaRowLowering::LoopsWithTail(int position) {
  LowerMembers(position);
  const ir::Block whole = InnerLines();
  LowerMembers(position, {.again = true, .tail = true});
  Tail tail{.name = LoopName(FirstInner()), .loop = LoopVar(FirstInner())};
  tail.statements = InnerLines();
  ir::Block block = body_.TakeUnit();
  tail.extent = body_.Extent(nest_.inner[0]);
  const ir::Value apart = Width() - 1;
  tail.last = tail.loop + (plan_.is_interleaved() ? apart * GroupSize()
                           : plan_.is_unaligned() ? ir::Value(2) * apart
                                                  : apart);
  const ir::Value elements = tail.extent - tail.loop;
  const ir::Value left =
      plan_.is_interleaved() ? (elements + GroupSize() - 1) / GroupSize() : elements;
  tail.rest.condition = tail.loop < tail.extent;
  tail.rest.then = {ir::LetIndex("left", left)};
  ir::Append(&tail.rest.then, tail.statements);
  ir::Append(&block, plan_.register_vectors() == 0 ? LoopWithTail(tail, whole)
                                                   : VectorsWithTail(tail, whole));
  return block;
}

ir::Block CudaRowLowering::LoopWithTail(const Tail& tail, const ir::Block& whole) {
  const ir::Value lead = ir::IndexVar("lead");
  ir::Block block;
  if (plan_.is_peeled()) block.push_back(Lead());
  block.push_back(Variable(tail.name, plan_.is_interleaved() ? LaneOfGroup()
                                      : plan_.is_peeled()    ? lead + LaneOfGroup() * Width()
                                                             : LaneOfGroup() * Width()));
  block.push_back({ir::For{.variable = tail.name,
                           .condition = tail.last < tail.extent,
                           .step = GroupSize() * Width(),
                           .body = whole,
                           .unroll = plan_.vectors_in_flight()}});
  if (!plan_.is_peeled()) {
    block.push_back({tail.rest});
    return {{ir::Scope{std::move(block)}}};
  }
  // The vectors of a peeled row that are not whole: behind the others, and the first elements,
  // which are the first thread's.
  const ir::Value end = ir::IntVar("end"), left = ir::IndexVar("left");
  block.push_back({ir::For{
      .variable = "end",
      .type = ir::kIntType,
      .first = 0,
      .condition = end < 2,
      .step = 1,
      .body = {
          ir::When(end == 1, {ir::Set(tail.loop, ir::Choose(LaneOfGroup() == 0, 0, tail.extent))}),
          ir::LetIndex("left", ir::Choose(end == 0, tail.extent - tail.loop, lead)),
          ir::When(ir::And(tail.loop < tail.extent, left > 0), tail.statements)}}});
  return {{ir::Scope{std::move(block)}}};
}

ir::Block CudaRowLowering::VectorsWithTail(const Tail& tail, const ir::Block& whole) {
  const int filled = plan_.group().whole_vectors;
  const ir::Value group = FirstVector() + VectorNumber() * GroupSize();
  const ir::Statement start =
      ir::LetIndex(tail.name, plan_.is_interleaved() ? group * Width() + LaneOfGroup()
                                                     : (group + LaneOfGroup()) * Width());
  ir::Block block;
  if (filled > 0) {
    ir::Block body = {start};
    ir::Append(&body, whole);
    block.push_back(ForRegisters(0, filled, std::move(body)));
  }
  if (filled < plan_.register_vectors()) {
    ir::Statement rest = {tail.rest};
    // Interleaved lanes are nearly all partial at a row's end; of neighbours it is one thread's.
    if (plan_.is_partial() || plan_.column_tiles() != nullptr) {
      rest = {ir::If{.condition = tail.last < tail.extent, .then = whole, .otherwise = {rest}}};
    }
    block.push_back(ForRegisters(filled, plan_.register_vectors(), {start, rest}));
  }
  return block;
}

ir::Statement CudaRowLowering::Lead() {
  const ir::Value start = body_.Scalar(*StartOfStoredRow(nest_, plan_.width));
  const ir::Value before = -ir::CastTo(ir::kIndexType, start) & (Width() - 1);
  return ir::LetIndex("lead", ir::CallOf("min_index", {before, body_.Extent(nest_.inner[0])}));
}

}  // namespace tensord::compiler
