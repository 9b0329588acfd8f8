// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cuda/tiles.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "compiler/codegen/cuda/accumulators.h"

namespace tensord::compiler {
namespace {

// Loops are called i0, i1, ... as in the body, first0, first1, ... at the tile's first element.
class TileLowering {
 public:
  TileLowering(CudaBody* body, const Nest& nest, const CudaPlan& plan)
      : body_(body),
        nest_(nest),
        plan_(*plan.As<CudaTiles>()),
        last_(static_cast<int>(nest.inner.size()) - 1),
        row_vectors_(plan_.along / plan.width),
        vectors_(row_vectors_ * plan_.across),
        rounds_((vectors_ + plan.threads - 1) / plan.threads),
        is_whole_(vectors_ % plan.threads == 0),
        edges_{{last_, plan_.along}, {plan_.loop, plan_.across}} {}

  ir::Block Lower(const ir::Block& vector) {
    ir::Block block = FindTile();
    block.push_back(Fill());
    block.push_back({ir::Barrier{}});
    block.push_back(Vectors(vector));
    return block;
  }

 private:
  static ir::Value First(int loop) { return ir::IndexVar(absl::StrCat("first", loop)); }

  // Neighbouring blocks take tiles of one row of the result.
  ir::Block FindTile() {
    const ir::Value rest = ir::IndexVar("rest");
    ir::Block block = {{ir::Declare{.bindings = {{"rest", BlockNumber()}},
                                    .type = ir::kIndexType,
                                    .mutability = ir::Declare::kVariable}}};
    const auto take = [&](const std::string& name, const Expr& count, int edge) {
      const ir::Value extent = body_->Extent(count), number = rest % extent;
      block.push_back(ir::LetIndex(name, edge > 0 ? number * edge : number));
      block.push_back({ir::Assign{rest, extent, ir::BinaryOp::kDiv}});
    };
    for (const auto& [loop, edge] : edges_) {
      take(absl::StrCat("first", loop), sym::CeilDiv(nest_.inner[loop], Expr(edge)), edge);
    }
    for (int loop = last_ - 1; loop >= 0; --loop) {
      if (loop != plan_.loop) take(LoopName(loop), nest_.inner[loop], 0);
    }
    return block;
  }

  ir::Statement Loops(const ir::Value& along, const ir::Value& across) {
    return ir::DeclareAll(ir::kIndexType,
                          {{LoopName(last_), along}, {LoopName(plan_.loop), across}});
  }

  bool Fits(int loop, int edge) const {
    return sym::ExactDiv(nest_.inner[loop], Expr(edge)).has_value();
  }

  // Elements of a tile that exist along a loop.
  ir::Value LeftOf(int loop, int edge) {
    return ir::CastTo(ir::kIndexType, Fits(loop, edge)
                                          ? ir::Value(edge)
                                          : body_->Extent(nest_.inner[loop]) - LoopVar(loop));
  }

  ir::Statement Fill() {
    ir::Block block = {Loops(First(last_), First(plan_.loop))};
    const ir::Value across = LeftOf(plan_.loop, plan_.across), along = LeftOf(last_, plan_.along);
    for (const auto& [number, fill] : body_->tile_fills()) {
      const ir::Value tile = TileNamed(number, plan_.operands[number].storage);
      block.push_back(ir::Do(
          ir::CallOfTile(TileTypeName(number), "fill", {},
                         {tile, fill.address, ir::CastTo(ir::kIndexType, fill.step), along, across},
                         ir::kVoidType)));
    }
    return {ir::Scope{std::move(block)}};
  }

  // A thread's vectors, one after the other.
  ir::Statement Vectors(const ir::Block& vector) {
    ir::Value exists;
    for (const auto& [loop, edge] : edges_) {
      if (Fits(loop, edge)) continue;
      const ir::Value bound = LoopVar(loop) < body_->Extent(nest_.inner[loop]);
      exists = exists ? ir::And(exists, bound) : bound;
    }
    const ir::Value place = ir::Var("place", ir::kUnsignedType), k = VectorNumber();
    const ir::Value row = ir::IntVar("tile_row"), column = ir::IntVar("tile_column");
    ir::Block body = {
        ir::DeclareAll(ir::kUnsignedType, {{"place", ir::Thread() + k * BlockSize()}})};
    if (!is_whole_) body.push_back(ir::When(place >= vectors_, {{ir::Break{}}}));
    body.push_back(ir::DeclareAll(ir::kIntType, {{"tile_row", place / row_vectors_},
                                                 {"tile_column", place % row_vectors_ * Width()}}));
    body.push_back(Loops(First(last_) + column, First(plan_.loop) + row));
    body.push_back(exists ? ir::When(exists, vector) : ir::Statement{ir::Scope{vector}});
    return {ir::For{.variable = "k",
                    .type = ir::kIntType,
                    .first = 0,
                    .condition = k < rounds_,
                    .step = 1,
                    .body = std::move(body),
                    .unroll = plan_.unroll}};
  }

  CudaBody* body_;
  const Nest& nest_;
  const CudaTiles& plan_;
  const int last_;
  const int row_vectors_, vectors_, rounds_;  // vectors of a tile's row, of a tile; of a thread
  const bool is_whole_;                       // every thread has a vector in every round
  const std::pair<int, int> edges_[2];        // loops, and elements of a tile along them
};

}  // namespace

ir::Block LowerTiles(CudaBody* body, const Nest& nest, const CudaPlan& plan,
                     const ir::Block& vector) {
  return TileLowering(body, nest, plan).Lower(vector);
}

}  // namespace tensord::compiler
