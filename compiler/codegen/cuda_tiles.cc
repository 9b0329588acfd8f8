#include "compiler/codegen/cuda_tiles.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "compiler/codegen/cuda_plan.h"
#include "compiler/codegen/cuda_width.h"

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

Expr ExtentOf(const Nest& nest, int loop) { return nest.inner[loop]; }
int VectorLoop(const Nest& nest) { return static_cast<int>(nest.inner.size()) - 1; }

bool Writes(const Nest& nest, BufferId buffer) {
  for (const NestMember& member : nest.members) {
    for (const Store& store : member.loops.stores) {
      if (store.buffer == buffer) return true;
    }
  }
  return false;
}

bool MayLieAcross(const Nest& nest, const Inst& inst) {
  if (inst.kind != InstKind::kLoad || inst.guard >= 0 || nest.local.count(inst.buffer) != 0 ||
      sym::ContainsKind(inst.index, sym::AtomKind::kIndirect) || Writes(nest, inst.buffer)) {
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
  const int64_t along = sym::Hint(ExtentOf(nest, VectorLoop(nest)));
  const int64_t across = sym::Hint(ExtentOf(nest, loop));
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
int RunOf(const Nest& nest, const TilePlan& plan, const TileOperand& operand, int threads) {
  const int64_t alignment = VectorAlignment(operand.index, {sym::AtomKind::kLoop, plan.loop});
  const int chunk = ChunkOf(operand.storage);
  int run = chunk;
  const auto fits = [&](int r) {
    return alignment % r == 0 && sym::ExactDiv(ExtentOf(nest, plan.loop), Expr(r)) &&
           (plan.along / chunk) * (plan.across / r) >= threads;
  };
  while (run > 1 && !fits(run)) run /= 2;
  return run;
}

Expr CountTiles(const Nest& nest, const TilePlan& plan) {
  Expr count = sym::CeilDiv(ExtentOf(nest, VectorLoop(nest)), Expr(plan.along)) *
               sym::CeilDiv(ExtentOf(nest, plan.loop), Expr(plan.across));
  for (int loop = 0; loop < VectorLoop(nest); ++loop) {
    if (loop != plan.loop) count *= ExtentOf(nest, loop);
  }
  return count;
}

void HalveLongerEdge(TilePlan* plan) {
  (plan->across >= plan->along ? plan->across : plan->along) /= 2;
}

void ChooseEdges(const Nest& nest, const v1::CudaTarget& target, TilePlan* plan) {
  const int item = LargestItem(plan->operands);
  const int most = std::min(kRowBytes / item, item == 1 ? kMostEdgeOfBytes : kMostEdge);
  const auto edge = [&](int loop) {
    int e = most;
    while (e > kShortEdge && e > sym::Hint(ExtentOf(nest, loop))) e /= 2;
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

// Loops are called i0, i1, ... as in the body, first0, first1, ... at the tile's first element.
class TileWriter {
 public:
  TileWriter(BodyEmitter* body, const Nest& nest, const TilePlan& plan, int width, int threads)
      : body_(body),
        nest_(nest),
        plan_(plan),
        last_(VectorLoop(nest)),
        row_vectors_(plan.along / width),
        vectors_(row_vectors_ * plan.across),
        rounds_((vectors_ + threads - 1) / threads),
        is_whole_(vectors_ % threads == 0) {}

  std::string Write(const std::map<size_t, TileFill>& fills, const std::string& lines) {
    return absl::StrCat(FindTile(), Fill(fills), "  __syncthreads();\n", Vectors(lines));
  }

 private:
  // Neighbouring blocks take tiles of one row of the result.
  std::string FindTile() {
    std::string text = "  [[maybe_unused]] index rest = block;\n";
    const auto take = [&](const std::string& name, const Expr& count, const std::string& times) {
      const std::string extent = body_->ExtentText(count);
      absl::StrAppend(&text, "  [[maybe_unused]] const index ", name, " = rest % ", extent, times,
                      ";\n  rest /= ", extent, ";\n");
    };
    for (const auto& [loop, edge] : {std::pair(last_, plan_.along), {plan_.loop, plan_.across}}) {
      take(absl::StrCat("first", loop), sym::CeilDiv(ExtentOf(nest_, loop), Expr(edge)),
           absl::StrCat(" * ", edge));
    }
    for (int loop = last_ - 1; loop >= 0; --loop) {
      if (loop != plan_.loop) take(absl::StrCat("i", loop), ExtentOf(nest_, loop), "");
    }
    return text;
  }

  std::string Loops(const std::string& along, const std::string& across) {
    return absl::StrCat("    [[maybe_unused]] const index i", last_, " = first", last_, along,
                        ", i", plan_.loop, " = first", plan_.loop, across, ";\n");
  }

  bool Fits(int loop, int edge) const {
    return sym::ExactDiv(ExtentOf(nest_, loop), Expr(edge)).has_value();
  }

  // Elements of a tile that exist along a loop.
  std::string Left(int loop, int edge) {
    return absl::StrCat("static_cast<index>(",
                        Fits(loop, edge)
                            ? absl::StrCat(edge)
                            : absl::StrCat(body_->ExtentText(ExtentOf(nest_, loop)), " - i", loop),
                        ")");
  }

  std::string Fill(const std::map<size_t, TileFill>& fills) {
    std::string text = absl::StrCat("  {\n", Loops("", ""));
    const std::string left =
        absl::StrCat(Left(last_, plan_.along), ", ", Left(plan_.loop, plan_.across));
    for (const auto& [number, fill] : fills) {
      absl::StrAppend(&text, "    Tile", number, "::fill(tile", number, ", ", fill.address,
                      ", static_cast<index>(", fill.step, "), ", left, ");\n");
    }
    return text + "  }\n";
  }

  std::string Vectors(const std::string& lines) {
    std::vector<std::string> bounds;
    for (const auto& [loop, edge] : {std::pair(last_, plan_.along), {plan_.loop, plan_.across}}) {
      if (Fits(loop, edge)) continue;
      bounds.push_back(absl::StrCat("i", loop, " < ", body_->ExtentText(ExtentOf(nest_, loop))));
    }
    return absl::StrCat(
        "#pragma unroll ", plan_.unroll, "\n  for (int k = 0; k < ", rounds_,
        "; ++k) {\n    const unsigned place = threadIdx.x + k * T;\n",
        is_whole_ ? "" : absl::StrCat("    if (place >= ", vectors_, ") break;\n"),
        "    [[maybe_unused]] const int tile_row = place / ", row_vectors_,
        ", tile_column = place % ", row_vectors_, " * W;\n", Loops(" + tile_column", " + tile_row"),
        "    ", bounds.empty() ? "" : absl::StrCat("if (", absl::StrJoin(bounds, " && "), ") "),
        "{\n", lines, "    }\n  }\n");
  }

  BodyEmitter* body_;
  const Nest& nest_;
  const TilePlan& plan_;
  const int last_;
  const int row_vectors_, vectors_, rounds_;  // vectors of a tile's row, of a tile; of a thread
  const bool is_whole_;                       // every thread has a vector in every round
};

}  // namespace

std::optional<TilePlan> PlanTiles(const Program& program, const Nest& nest,
                                  const v1::CudaTarget& target, int width, int threads) {
  if (nest.shape != NestShape::kFlat || !nest.outer.empty() || nest.inner.size() < 2) {
    return std::nullopt;
  }
  TilePlan plan;
  for (auto& [loop, operands] : CandidatesByLoop(nest)) {
    if (BytesOf(operands) <= BytesOf(plan.operands)) continue;
    plan.loop = loop;
    plan.operands = operands;
  }
  if (plan.operands.empty()) return std::nullopt;
  constexpr int kMostItems = kMostTileBytes / (kLeastEdge * kLeastEdge);
  while (BytesOf(plan.operands) > kMostItems) plan.operands.pop_back();
  ChooseEdges(nest, target, &plan);
  TENSORD_CHECK(width <= kShortEdge, "a vector is longer than a tile");
  for (TileOperand& operand : plan.operands) {
    operand.run = RunOf(nest, plan, operand, threads);
    operand.offset = plan.shared_bytes;
    plan.shared_bytes += plan.along * plan.across * static_cast<int>(ItemSize(operand.storage));
  }
  plan.unroll = std::clamp(kElementsUnderWay / width, 1, kMostUnrolled);
  plan.blocks = CountTiles(nest, plan);
  return plan;
}

std::string TileText(BodyEmitter* body, const Nest& nest, const TilePlan& plan, int width,
                     int threads, const std::map<size_t, TileFill>& fills,
                     const std::string& lines) {
  return TileWriter(body, nest, plan, width, threads).Write(fills, lines);
}

}  // namespace tensord::compiler
