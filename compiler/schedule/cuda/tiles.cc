// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/tiles.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "compiler/schedule/cuda/pointwise.h"
#include "compiler/schedule/cuda/register_resident.h"
#include "compiler/schedule/cuda/threads.h"

namespace tensord::compiler {
namespace {

constexpr int kLeastEdge = 32;
// One of the loops may be as short as the positions of a filter; its edge is at least kShortEdge.
constexpr int kLeastShort = 8;
constexpr int kShortEdge = 16;
// Both sides of a tile are rows of so many bytes, whole lines of the cache.
constexpr int kRowBytes = 256;
constexpr int kMostEdge = 64;
constexpr int kMostEdgeOfBytes = 128;
// Room for seven or more blocks on a multiprocessor of a data center, three on others.
constexpr int kMostTileBytes = 32 << 10;
// Smaller steps share the sectors that they read.
constexpr int64_t kLeastStep = 8;
// Elements whose loads should be under way at once in a thread.
constexpr int kElementsUnderWay = 16;
constexpr int kMostUnrolled = 4;

int VectorLoop(const Nest& nest) { return static_cast<int>(nest.inner.size()) - 1; }

bool MayLieAcross(const Nest& nest, const Inst& inst) {
  if (inst.kind != InstKind::kLoad || inst.guard >= 0 || nest.local.count(inst.buffer) != 0 ||
      sym::ContainsKind(inst.index, sym::AtomKind::kIndirect) || IsWritten(nest, inst.buffer)) {
    return false;
  }
  const auto step = sym::LinearCoefficient(inst.index, {sym::AtomKind::kLoop, VectorLoop(nest)});
  return step && !sym::ContainsKind(*step, sym::AtomKind::kLoop) && sym::Hint(*step) >= kLeastStep;
}

bool StepsByOne(const Expr& index, int loop) {
  const auto step = sym::LinearCoefficient(index, {sym::AtomKind::kLoop, loop});
  return step && step->Is(1);
}

// Whether tiles of the vector loop and `loop` are long enough along one of them.
bool MakeTiles(const Nest& nest, int loop) {
  const int64_t along = sym::Hint(nest.inner.back());
  const int64_t across = sym::Hint(nest.inner[loop]);
  return std::min(along, across) >= kLeastShort && std::max(along, across) >= kLeastEdge;
}

// The loads that could be tiled together with each loop.
std::map<int, std::vector<TileOperand>> CandidatesByLoop(const Nest& nest) {
  std::map<int, std::vector<TileOperand>> candidates;
  std::set<std::pair<BufferId, Expr>> seen;
  for (const NestMember& member : nest.members) {
    for (const Inst& inst : member.loops.block.insts) {
      if (!MayLieAcross(nest, inst) || !seen.emplace(inst.buffer, inst.index).second) continue;
      for (int loop = 0; loop < VectorLoop(nest); ++loop) {
        if (StepsByOne(inst.index, loop) && MakeTiles(nest, loop)) {
          candidates[loop].push_back({inst.buffer, inst.index, inst.storage});
        }
      }
    }
  }
  return candidates;
}

int BytesOf(const std::vector<TileOperand>& operands) {
  int bytes = 0;
  for (const TileOperand& operand : operands) bytes += static_cast<int>(ItemSize(operand.storage));
  return bytes;
}

int LargestItem(const std::vector<TileOperand>& operands) {
  int largest = 1;
  for (const TileOperand& operand : operands) {
    largest = std::max(largest, static_cast<int>(ItemSize(operand.storage)));
  }
  return largest;
}

// Elements that the prelude's tile writes at once.
int ChunkOf(DType storage) {
  const int size = static_cast<int>(ItemSize(storage));
  return size == 1 ? 4 : 16 / size;
}

// The longest aligned runs that leave work for every thread.
int RunOf(const Nest& nest, const CudaTiles& plan, const TileOperand& operand, int threads) {
  const int64_t alignment = VectorAlignment(operand.index, {sym::AtomKind::kLoop, plan.loop});
  const int chunk = ChunkOf(operand.storage);
  int run = chunk;
  const auto fits = [&](int r) {
    return alignment % r == 0 && sym::ExactDiv(nest.inner[plan.loop], Expr(r)) &&
           (plan.along / chunk) * (plan.across / r) >= threads;
  };
  while (run > 1 && !fits(run)) run /= 2;
  return run;
}

Expr CountTiles(const Nest& nest, const CudaTiles& plan) {
  Expr count = sym::CeilDiv(nest.inner.back(), Expr(plan.along)) *
               sym::CeilDiv(nest.inner[plan.loop], Expr(plan.across));
  for (int loop = 0; loop < VectorLoop(nest); ++loop) {
    if (loop != plan.loop) count *= nest.inner[loop];
  }
  return count;
}

void HalveLongerEdge(CudaTiles* plan) {
  (plan->across >= plan->along ? plan->across : plan->along) /= 2;
}

void ChooseEdges(const Nest& nest, const v1::CudaTarget& target, CudaTiles* plan) {
  const int item = LargestItem(plan->operands);
  const int most = std::min(kRowBytes / item, item == 1 ? kMostEdgeOfBytes : kMostEdge);
  const auto edge = [&](int loop) {
    int e = most;
    while (e > kShortEdge && e > sym::Hint(nest.inner[loop])) e /= 2;
    return e;
  };
  plan->along = edge(VectorLoop(nest));
  plan->across = edge(plan->loop);
  const int bytes = BytesOf(plan->operands);
  // Small tensors: a tile for every multiprocessor.
  const int64_t blocks = 2 * std::max<int64_t>(1, target.multiprocessors());
  while (std::max(plan->along, plan->across) > kLeastEdge &&
         (plan->along * plan->across * bytes > kMostTileBytes ||
          sym::Hint(CountTiles(nest, *plan)) < blocks)) {
    HalveLongerEdge(plan);
  }
}

}  // namespace

absl::Status CanScheduleTiles(const NestContext& context) {
  const Nest& nest = context.nest;
  TENSORD_RETURN_IF_ERROR(MayIgnoreRows(context));
  if (nest.shape != NestShape::kFlat || !nest.outer.empty() || nest.inner.size() < 2) {
    return Reject("it has no two loops to make tiles of");
  }
  if (CandidatesByLoop(nest).empty()) {
    return Reject("no operand lies across the vector loop, with loops as long as a tile's least");
  }
  return absl::OkStatus();
}

CudaPlan ScheduleTiles(const NestContext& context) {
  const Nest& nest = context.nest;
  CudaPlan plan{.width = context.widths.aligned, .threads = context.Threads(kUsualThreads)};
  CudaTiles tiles;
  for (auto& [loop, operands] : CandidatesByLoop(nest)) {
    if (BytesOf(operands) <= BytesOf(tiles.operands)) continue;
    tiles.loop = loop;
    tiles.operands = operands;
  }
  constexpr int kMostItems = kMostTileBytes / (kLeastEdge * kLeastEdge);
  while (BytesOf(tiles.operands) > kMostItems) tiles.operands.pop_back();
  ChooseEdges(nest, context.target, &tiles);
  TENSORD_CHECK(plan.width <= kShortEdge, "a vector is longer than a tile");
  for (TileOperand& operand : tiles.operands) {
    operand.run = RunOf(nest, tiles, operand, plan.threads);
    operand.offset = tiles.shared_bytes;
    tiles.shared_bytes += tiles.along * tiles.across * static_cast<int>(ItemSize(operand.storage));
  }
  tiles.unroll = IsHeavy(nest) ? 1 : std::clamp(kElementsUnderWay / plan.width, 1, kMostUnrolled);
  plan.blocks = CountTiles(nest, tiles);
  plan.kind = std::move(tiles);
  return plan;
}

}  // namespace tensord::compiler
