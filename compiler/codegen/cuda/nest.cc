// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cuda/nest.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "compiler/codegen/cuda/rows.h"
#include "compiler/codegen/cuda/tiles.h"
#include "compiler/codegen/nest.h"

namespace tensord::compiler {
namespace {

class CudaNestLowering : CudaRowLowering {
 public:
  // Launch number `launch`, of those that find totals and the nest's own.
  CudaNestLowering(const Program& program, const Nest& nest, const CudaPlan& plan, std::string name,
                   const ScanTotals& totals, int launch, KernelInterface* interface)
      : CudaRowLowering(program, nest, plan, std::move(name), interface) {
    body_.ScanInParts(&totals, launch);
  }

  CudaNestFunctions Lower() {
    const ir::Block work = Work();
    const ir::Block declare = accumulators_.DeclarePrivate(), save = accumulators_.SavePrivate();
    CudaNestFunctions result;
    result.finishes = accumulators_.Finish(name_);
    ir::Block end;
    if (plan_.combines_in_last_block() && !result.finishes.empty()) {
      end = accumulators_.FinishInLastBlock(result.finishes);
      for (CudaFinish& finish : result.finishes) {
        result.functions.push_back(std::move(finish.function));
      }
      result.finishes.clear();
    }
    ir::Function function = Declaration();
    result.shared_bytes = body_.shared_bytes();
    if (plan_.combine_bytes() > 0) {
      // Not static: nests of one launch would have theirs beside each other.
      function.body.push_back(
          {ir::BindShared{"tile", ir::BytesType(), result.shared_bytes, plan_.combine_bytes()}});
      result.shared_bytes += plan_.combine_bytes();
    }
    function.shared_bytes = result.shared_bytes;
    const ir::Block threads = Threads();
    ir::Append(&function.body, body_.Declarations());
    for (const ir::Block& part : {threads, declare, work, save, end}) {
      ir::Append(&function.body, part);
    }
    result.functions.push_back(std::move(function));
    return result;
  }

 private:
  int VectorsPerThread() const {
    const auto* elements = plan_.As<CudaElements>();
    return elements != nullptr ? elements->vectors_per_thread : 1;
  }
  bool ServesMany() const {
    const auto* elements = plan_.As<CudaElements>();
    return elements != nullptr && elements->serves_many;
  }

  // The function up to its names.
  ir::Function Declaration() const {
    ir::Function function{.name = name_, .threads = plan_.threads, .group = plan_.G()};
    function.parameters = {{"args", ir::kArgumentsType},
                           {"block", ir::kIntType, /*constant=*/true},
                           {"blocks", ir::kIntType, /*constant=*/true},
                           {"shared", ir::kGroupMemoryType}};
    if (ServesMany()) {
      function.parameters.push_back({"first_buffer", ir::kIntType, /*constant=*/true});
      function.parameters.push_back({"first_integer", ir::kIntType, /*constant=*/true});
    }
    function.body.push_back(
        {ir::Declare{.bindings = {{"W", plan_.width}, {"T", plan_.threads}, {"G", plan_.G()}},
                     .type = ir::kIntType,
                     .mutability = ir::Declare::kConstexpr}});
    return function;
  }

  // Where a thread stands.
  ir::Block Threads() {
    if (plan_.Is<CudaTiles>()) return {};
    const ir::Value vectors = ir::IndexVar("vectors"), tiles = ir::IntVar("tiles");
    const ir::Value vector_count =
        ServesMany() ? body_.Argument(Vectors()) : body_.Extent(Vectors());
    const ir::Value row_count = body_.Extent(Rows());
    ir::Block block = {
        ir::DeclareAll(ir::kIndexType, {{"rows", row_count}, {"vectors", vector_count}})};
    if (plan_.Is<CudaElements>() || plan_.owns_columns()) return block;
    block.push_back(ir::DeclareAll(ir::kIntType, {{"lane", ir::Thread() % GroupSize()}}));
    if (plan_.column_tiles() != nullptr) {
      block.push_back(
          ir::DeclareAll(ir::kIntType, {{"tiles", (vectors + GroupSize() - 1) / GroupSize()},
                                        {"copies", Blocks() / tiles},
                                        {"copy", BlockNumber() / tiles}}));
      block.push_back(ir::LetIndex("first_vector", BlockNumber() % tiles * GroupSize()));
    } else {
      block.push_back(
          ir::DeclareAll(ir::kIntType, {{"copies", Blocks()}, {"copy", BlockNumber()}}));
      block.push_back({ir::Declare{.bindings = {{"first_vector", 0}},
                                   .type = ir::kIndexType,
                                   .mutability = ir::Declare::kConstexpr}});
    }
    return block;
  }

  ir::Block Work() {
    if (plan_.Is<CudaElements>()) return Elements();
    if (plan_.Is<CudaTiles>()) return Tiles();
    if (plan_.Is<CudaColumns>()) return Columns();
    if (plan_.Is<CudaColumnGroups>()) return ColumnGroups();
    if (const auto* split = plan_.As<CudaSplit>()) return PartOfRow(split->parts);
    if (plan_.scanned_parts() > 1) return PartOfRow(plan_.scanned_parts());
    if (plan_.Is<CudaSweep>() && nest_.shape == NestShape::kFlat) return SweepElements();
    return plan_.loops_rows() ? SweepRows() : OneRow();
  }

  // ---- Elements

  static ir::Value Unit() { return ir::IndexVar("unit"); }
  static ir::Value FirstUnit() {
    return ir::CastTo(ir::kIndexType, BlockNumber()) * BlockSize() + ir::Thread();
  }
  static ir::Value UnitCount() { return ir::IndexVar("rows") * ir::IndexVar("vectors"); }

  // All of a thread's vectors at once, whatever loops they lie in: row and vector from one number.
  // What depends on no loop goes to `before`, unless there is none: a single element is stored by
  // its own thread.
  ir::Block UnitOfElement(ir::Block* before) {
    for (int position : Positions()) LowerMembers(position);
    ir::Block lines;
    (nest_.outer.empty() && HasVectorLoop() ? *before : lines) = body_.TakeUnit();
    ir::Append(&lines, InnerLines());
    ir::Block block;
    if (!HasVectorLoop()) {
      block = DecodeRow(Unit());
    } else {
      // A size that is an argument would make two divisions of it.
      const ir::Value vectors = ir::IndexVar("vectors");
      const bool flat = nest_.outer.empty();
      block = {ir::DeclareAll(ir::kIndexType, {{"row", flat ? ir::Value(0) : Unit() / vectors},
                                               {"q", flat ? Unit() : Unit() % vectors}})};
      const ir::Block vector = DecodeVector();
      ir::Append(&block, DecodeRow(ir::IndexVar("row")));
      ir::Append(&block, vector);
    }
    ir::Append(&block, lines);
    return block;
  }

  ir::Block Elements() {
    if (VectorsPerThread() > 1) return SweepElements();
    ir::Block before;
    const ir::Block unit = UnitOfElement(&before);
    ir::Block block = {ir::LetIndex("unit", FirstUnit()),
                       ir::When(Unit() >= UnitCount(), {{ir::Return{}}})};
    ir::Append(&block, before);
    ir::Append(&block, unit);
    return block;
  }

  ir::Block SweepElements() {
    ir::Block block;
    ir::Block unit = UnitOfElement(&block);
    block.push_back({ir::For{.variable = "unit",
                             .first = FirstUnit(),
                             .condition = Unit() < UnitCount(),
                             .step = ir::CastTo(ir::kIndexType, Blocks()) * BlockSize(),
                             .body = std::move(unit),
                             .unroll = plan_.vectors_in_flight()}});
    return block;
  }

  ir::Block Tiles() {
    LowerMembers(nest_.members[0].position);
    ir::Block block = body_.TakeUnit();
    ir::Append(&block, LowerTiles(&body_, nest_, plan_, InnerLines()));
    return block;
  }

  // ---- Columns: a thread runs through the reduced or scanned loops of its own

  // The innermost of them, so many iterations at a time: all load before the first one stores.
  ir::Block RowsAtOnce(int count) {
    const int levels = body_.vector_level(), loop = VectorLoop() - 1;
    const bool has_parts = plan_.scanned_parts() > 1;
    const ir::Value begin = has_parts ? ir::IndexVar("first") : ir::Value(0);
    const ir::Value end = has_parts ? ir::IndexVar("last") : body_.Extent(nest_.inner[levels - 2]);
    const ir::Value next = ir::IndexVar("next"), row = next + VectorNumber();
    ir::Block load = {ir::LetIndex(LoopName(loop), ir::CallOf("min_index", {row, end - 1}))};
    ir::Append(&load, body_.first_loads());
    ir::Block rest = {ir::LetIndex(LoopName(loop), row)};
    for (int level : {levels - 1, levels}) ir::Append(&rest, body_.at(level));
    ir::Block rows;
    if (!body_.first_loads().empty()) {
      rows.push_back(ForRegisters(0, count, {{ir::Scope{std::move(load)}}}));
    }
    rows.push_back(ForRegisters(0, count, {ir::When(row < end, std::move(rest))}));
    return {ir::Loop("next", begin, next < end, count, std::move(rows))};
  }

  ir::Block Columns() {
    const int position = nest_.members[0].position;
    const ir::Block declare = accumulators_.DeclareRow(position);
    LowerScanned(position);
    const ir::Block scalars = body_.TakeUnit();
    const ir::Block decode = DecodeRow(ir::IndexVar("row"));
    const int levels = body_.vector_level();
    const int at_once = plan_.As<CudaColumns>()->rows_in_flight;
    const ir::Block inside = levels == 0   ? ir::Block{}
                             : at_once > 0 ? InnerLoops(RowsAtOnce(at_once), 1)
                                           : InnerLoops(body_.at(levels));
    body_.BeginPass();
    accumulators_.ColumnResults();
    if (body_.FindsTotals()) body_.SaveTotals();
    const ir::Value vectors = ir::IndexVar("vectors");
    const int parts = plan_.scanned_parts();
    const bool has_parts = parts > 1;
    const ir::Value units = has_parts ? UnitCount() * parts : UnitCount();
    ir::Block block = {ir::LetIndex("unit", FirstUnit()),
                       ir::When(Unit() >= units, {{ir::Return{}}})};
    if (has_parts) {
      const ir::Value extent = body_.Extent(nest_.inner[0]);
      ir::Append(&block, {ir::LetIndex("part", Unit() / vectors % parts),
                          ir::LetIndex("row", Unit() / vectors / parts)});
      ir::Append(&block, ShareOf(extent, parts));
    } else {
      block.push_back(ir::LetIndex("row", Unit() / vectors));
    }
    if (HasVectorLoop()) {
      block.push_back(ir::LetIndex(LoopName(VectorLoop()), Unit() % vectors * Width()));
    }
    for (const ir::Block& part :
         {decode, declare, scalars, inside, body_.TakeUnit(), InnerLines()}) {
      ir::Append(&block, part);
    }
    return block;
  }

  // ---- Groups of columns: threads of a block, and blocks, share the reduced loops

  // Block (row, tile, part); thread (y, x) has vector x of the tile and rows y, y + sharers, ...
  ir::Block ColumnGroups() {
    const auto& groups = *plan_.As<CudaColumnGroups>();
    const int position = nest_.members[0].position, parts = groups.parts;
    const int sharers = plan_.threads / groups.columns;
    const std::vector<Expr> reduced(nest_.inner.begin(), nest_.inner.end() - 1);
    const ir::Value vectors = ir::IndexVar("vectors"), tiles = ir::IndexVar("tiles"),
                    q = ir::IndexVar("q"), x = ir::IntVar("x"), y = ir::IntVar("y"),
                    number = ir::IndexVar("reduced");
    const ir::Block declare = accumulators_.DeclareRow(position);
    LowerMembers(position);
    const ir::Block scalars = body_.TakeUnit();
    const ir::Block decode = DecodeRow(ir::IndexVar("row"));
    ir::Block step =
        DecodeLoops(&body_, {.extents = reduced, .first_loop = FirstInner(), .number = number});
    ir::Append(&step, InnerLines());
    body_.BeginPass();
    accumulators_.ColumnResults();
    ir::Block results = body_.TakeUnit();
    ir::Append(&results, InnerLines());
    const ir::Value exists = q < vectors;
    const ir::Value unit = BlockNumber() / parts;
    ir::Block block = {
        ir::DeclareAll(ir::kIntType, {{"part", BlockNumber() % parts},
                                      {"x", ir::Thread() % groups.columns},
                                      {"y", ir::Thread() / groups.columns}}),
        ir::LetIndex("tiles", (vectors + (groups.columns - 1)) / groups.columns),
        ir::DeclareAll(ir::kIndexType,
                       {{"row", unit / tiles}, {"q", unit % tiles * groups.columns + x}}),
        // A thread beyond the last column has no rows.
        ir::LetIndex("end", ir::Choose(exists, body_.Extent(sym::Product(reduced)), 0)),
        ir::LetIndex(LoopName(VectorLoop()), ir::CallOf("min_index", {q, vectors - 1}) * Width())};
    for (const ir::Block& lines : {decode, declare, scalars}) ir::Append(&block, lines);
    block.push_back({ir::For{.variable = "reduced",
                             .first = ir::IntVar("part") * sharers + y,
                             .condition = number < ir::IndexVar("end"),
                             .step = sharers * parts,
                             .body = std::move(step),
                             .unroll = groups.rows_in_flight}});
    ir::Append(&block, accumulators_.CombineColumnGroups(exists));
    block.push_back(ir::When(ir::And(y == 0, exists), std::move(results)));
    return block;
  }
};

}  // namespace

CudaNestFunctions LowerCudaNest(const Program& program, const Nest& nest, const CudaPlan& plan,
                                const std::string& name, KernelInterface* interface) {
  const ScanTotals totals(nest, plan, interface);
  const auto launch = [&](int number, const std::string& function) {
    return CudaNestLowering(program, nest, plan, function, totals, number, interface).Lower();
  };
  CudaNestFunctions result = launch(totals.launches() + 1, name);
  for (int number = 1; number <= totals.launches(); ++number) {
    CudaNestFunctions before = launch(number, absl::StrCat(name, "_totals", number));
    result.totals.push_back(std::move(before.functions.back()));
  }
  return result;
}

}  // namespace tensord::compiler
