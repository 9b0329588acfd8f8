// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cpu/nest.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "compiler/codegen/cpu/accumulators.h"
#include "compiler/codegen/cpu/body.h"
#include "compiler/codegen/nest.h"

namespace tensord::compiler {
namespace {

// [first, last) of the vector loop in a unit.
struct Range {
  ir::Value first, last;
};

class CpuNestLowering : NestLowering {
 public:
  CpuNestLowering(const Program& program, const Nest& nest, const CpuPlan& plan, std::string name,
                  KernelInterface* interface)
      : NestLowering(nest, &body_, &accumulators_),
        plan_(plan),
        name_(std::move(name)),
        body_(program, nest_, plan, interface),
        accumulators_(program, nest_, plan, &body_, interface) {}

  CpuNestFunctions Lower() {
    CpuNestFunctions result;
    result.units = Units();
    result.work = Work();
    ir::Block unit = DecodeUnit();
    ir::Append(&unit, UnitBody());
    const ir::Block declare = accumulators_.DeclarePrivate(), save = accumulators_.SavePrivate();
    ir::Block& body = result.function.body;
    body = {DeclareWidth()};
    ir::Append(&body, body_.Declarations());
    ir::Append(&body, declare);
    const ir::Value begin = ir::IndexVar("begin"), end = ir::IndexVar("end");
    const auto units = [&](const ir::Value& first, const ir::Value& last) -> ir::Block {
      return {ir::Loop("unit", first, ir::IndexVar("unit") < last, 1, std::move(unit))};
    };
    if (plan_.chains.units > 0) {
      body.push_back(InParts("unit", begin, end,
                             {.iterations = plan_.chains.units,
                              .before = accumulators_.BeginUnits(),
                              .behind = accumulators_.AddUnits()},
                             units));
    } else {
      ir::Append(&body, units(begin, end));
    }
    ir::Append(&body, save);
    result.function.name = name_;
    result.function.parameters = {{.name = "args", .type = ir::kArgumentsType},
                                  {"begin", ir::kIndexType},
                                  {"end", ir::kIndexType},
                                  {.name = "scratch", .type = ir::BytesType()}};
    if (accumulators_.HasPrivate()) {
      result.finish = accumulators_.Finish(absl::StrCat(name_, "_finish"));
    }
    return result;
  }

 private:
  bool Transposes() const { return plan_.As<CpuTransposedRows>() != nullptr; }

  // ---- Units

  // How many parts of so many elements there are.
  static ir::Value Parts(const ir::Value& count, int64_t size) {
    return (count + (size - 1)) / size;
  }

  ir::Value Units() {
    if (const auto* flat = plan_.As<CpuFlat>()) {
      extent_ = body_.Argument(nest_.inner[0]);
      return Parts(extent_, flat->chunk);
    }
    std::vector<Expr> rows = nest_.outer;
    if (const auto* blocks = plan_.As<CpuColumnBlocks>()) {
      blocks_ = Parts(body_.Extent(nest_.inner.back()), blocks->columns);
    } else if (Transposes()) {
      rows.pop_back();
      blocks_ = Parts(body_.Extent(nest_.outer.back()), plan_.lanes);
    }
    const ir::Value count = body_.Argument(sym::Product(rows));
    return blocks_ ? count * blocks_ : count;
  }

  ir::Value Work() {
    if (plan_.As<CpuFlat>() != nullptr) return extent_ * plan_.cost;
    return body_.Argument(sym::Product(nest_.outer)) * plan_.cost;
  }

  // The outer loop variables from the unit's number.
  ir::Block DecodeUnit() {
    ir::Block block;
    ir::Value row = ir::IndexVar("unit");
    if (blocks_) {
      block.push_back(ir::LetIndex("block", row % blocks_));
      block.push_back(ir::LetIndex("row", row / blocks_));
      row = ir::IndexVar("row");
    }
    std::vector<Expr> extents = nest_.outer;
    if (Transposes()) extents.pop_back();
    ir::Append(&block, DecodeLoops(&body_, {.extents = extents, .number = row}));
    return block;
  }

  // ---- The inside of a unit

  ir::Block UnitBody() {
    if (Transposes()) return TransposingBody();
    ir::Block block;
    for (int position : Positions()) {
      ir::Append(&block, position % 2 == 1 ? Pass(position) : RowStatements(position));
    }
    return block;
  }

  ir::Block Pass(int position) {
    if (!HasVectorLoop()) {
      ir::Block block = accumulators_.DeclareRow(position, 1);
      LowerMembers(position);
      accumulators_.RowResults(position, 1);
      ir::Append(&block, body_.TakeUnit());
      return block;
    }
    const int levels = body_.vector_level(), copies = plan_.CopiesAt(position);
    ir::Block block = accumulators_.DeclareRow(position, copies);
    std::vector<ir::Block> unrolled;  // the vector loop's inside, by copy
    for (int copy = 1; copy < copies; ++copy) {
      LowerMembers(position, {.copy = copy, .again = copy > 1});
      unrolled.push_back(body_.at(levels));
    }
    LowerMembers(position, {.again = copies > 1});
    // Copy 0 is last, so that its text is the same as in the plain loop.
    unrolled.insert(unrolled.begin(), body_.at(levels));
    ir::Block tail;
    if (plan_.has_tail) {
      LowerMembers(position, {.again = true, .tail = true});
      tail = body_.at(levels);
    }
    ir::Append(&block, body_.TakeUnit());
    const std::vector<ir::Value> extents = OuterExtents();
    const auto part = plan_.chains.passes.find(position);
    if (part == plan_.chains.passes.end()) {
      ir::Append(&block, InnerLoops(VectorLoops(VectorRange(), unrolled, tail)));
    } else {
      ir::Append(&block, LoopsInParts(position, part->second, unrolled, tail));
    }
    accumulators_.RowResults(position, copies);
    ir::Append(&block, body_.TakeUnit());
    if (nest_.shape == NestShape::kBlocked) {
      const Range range = VectorRange();
      ir::Append(&block, accumulators_.StoreBlock(position, range.first, range.last));
    }
    return block;
  }

  // Those of the loops around the vector loop, which become arguments before its own does.
  std::vector<ir::Value> OuterExtents() {
    std::vector<ir::Value> extents;
    for (size_t q = 0; q + 1 < nest_.inner.size(); ++q) {
      extents.push_back(body_.Extent(nest_.inner[q]));
    }
    return extents;
  }

  // The inner loops, one of them in parts.
  ir::Block LoopsInParts(int position, const CpuChains::Part& part,
                         const std::vector<ir::Block>& copies, const ir::Block& tail) {
    const int count = static_cast<int>(copies.size());
    const bool in_vectors = part.loop + 1 == static_cast<int>(nest_.inner.size());
    const LoopParts parts = {
        .iterations = part.iterations,
        .are_even =
            !in_vectors && sym::ExactDiv(nest_.inner[part.loop], Expr(part.iterations)).has_value(),
        .before = accumulators_.BeginPart(position, count),
        .behind = accumulators_.AddPart(position, count)};
    const Range whole = VectorRange();
    if (!in_vectors) {
      return InnerLoops(VectorLoops(whole, copies, tail), 0, part.loop, parts);
    }
    return InnerLoops({InParts(LoopName(VectorLoop()), whole.first, whole.last, parts,
                               [&](const ir::Value& first, const ir::Value& last) {
                                 return VectorLoops({first, last}, copies, tail);
                               })});
  }

  // Vectors of all copies together, then whole vectors, then what is left.
  ir::Block VectorLoops(const Range& range, const std::vector<ir::Block>& copies,
                        const ir::Block& tail) {
    const std::string name = LoopName(VectorLoop());
    const ir::Value loop = LoopVar(VectorLoop()), last = ir::IndexVar("last");
    ir::Block block = {
        ir::DeclareAll(ir::kIndexType, {{"first", range.first}, {"last", range.last}}),
        {ir::Declare{.bindings = {{name, ir::IndexVar("first")}},
                     .type = ir::kIndexType,
                     .mutability = ir::Declare::kVariable}}};
    if (copies.size() > 1) {
      const ir::Value step = ir::Value(static_cast<int>(copies.size())) * Width();
      ir::Block body = {ir::LetIndex("base", loop)};
      for (size_t copy = 0; copy < copies.size(); ++copy) {
        ir::Block scope = {
            ir::LetIndex(name, ir::IndexVar("base") + ir::Value(static_cast<int>(copy)) * Width())};
        ir::Append(&scope, copies[copy]);
        body.push_back({ir::Scope{std::move(scope)}});
      }
      block.push_back(ir::Loop(name, {}, loop + step <= last, step, std::move(body)));
    }
    block.push_back(ir::Loop(name, {}, loop + Width() <= last, Width(), copies[0]));
    if (!tail.empty()) {
      ir::Block rest = {ir::LetIndex("left", last - loop)};
      ir::Append(&rest, tail);
      block.push_back(ir::When(loop < last, std::move(rest)));
    }
    return {{ir::Scope{std::move(block)}}};
  }

  Range VectorRange() {
    // Part number `number`, of so many elements.
    const auto part = [](const char* number, int64_t size, const ir::Value& extent) -> Range {
      const ir::Value first = ir::IndexVar(number) * size;
      return {first, ir::CallOf("min_index", {extent, first + size})};
    };
    if (const auto* flat = plan_.As<CpuFlat>()) return part("unit", flat->chunk, extent_);
    const ir::Value extent = body_.Extent(nest_.inner.back());
    if (Transposes()) return {ir::IndexVar("column"), extent};
    if (const auto* blocks = plan_.As<CpuColumnBlocks>()) {
      return part("block", blocks->columns, extent);
    }
    return {0, extent};
  }

  // ---- Transposed operands
  //
  // Where a load steps along the last outer loop and not along the vector loop, units are blocks of
  // W rows: a W x W tile of the operand is transposed into a local array, from which the rows are
  // read.

  ir::Block TransposingBody() {
    const int row = static_cast<int>(nest_.outer.size()) - 1, column = VectorLoop();
    const ir::Value first_row = ir::IndexVar("first_row"), last_row = ir::IndexVar("last_row"),
                    first_column = ir::IndexVar("column");
    const ir::Value rows = body_.Extent(nest_.outer.back());
    body_.BeginTiles();
    LowerMembers(1);
    ir::Block tiled = {ir::LetIndex(LoopName(column), first_column)};
    ir::Append(&tiled, body_.at(0));
    ir::Append(&tiled, body_.at(1));
    ir::Block tiles = {ir::DeclareAll(
        ir::kIndexType, {{LoopName(row), first_row}, {LoopName(column), first_column}})};
    ir::Append(&tiles, body_.EndTiles());
    ir::Block plain = Pass(1);
    const auto each_row = [&](ir::Block body) {
      return ir::Loop(LoopName(row), first_row, LoopVar(row) < last_row, 1, std::move(body));
    };
    ir::Block whole = {{ir::Scope{std::move(tiles)}}, each_row(std::move(tiled))};
    const ir::Value columns = body_.Extent(nest_.inner[0]);
    return {ir::DeclareAll(ir::kIndexType,
                           {{"first_row", ir::IndexVar("block") * Width()},
                            {"last_row", ir::CallOf("min_index", {rows, first_row + Width()})}}),
            {ir::Declare{.bindings = {{"column", 0}},
                         .type = ir::kIndexType,
                         .mutability = ir::Declare::kVariable}},
            ir::When(last_row - first_row == Width(),
                     {ir::Loop("column", {}, first_column + Width() <= columns, Width(),
                               std::move(whole))}),
            each_row(std::move(plain))};
  }

  const CpuPlan& plan_;
  std::string name_;
  CpuBody body_;
  CpuAccumulators accumulators_;
  ir::Value extent_;  // of a flat nest
  ir::Value blocks_;  // how many blocks a row of units has; none without blocks
};

}  // namespace

CpuNestFunctions LowerCpuNest(const Program& program, const Nest& nest, const CpuPlan& plan,
                              const std::string& name, KernelInterface* interface) {
  return CpuNestLowering(program, nest, plan, name, interface).Lower();
}

}  // namespace tensord::compiler
