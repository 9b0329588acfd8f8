#include "compiler/codegen/cuda_tiles.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

namespace tensord::compiler {
namespace {

Expr ExtentOf(const Nest& nest, int loop) { return nest.inner[loop]; }
int VectorLoop(const Nest& nest) { return static_cast<int>(nest.inner.size()) - 1; }

// Loops are called i0, i1, ... as in the body, first0, first1, ... at the tile's first element.
class TileWriter {
 public:
  TileWriter(BodyEmitter* body, const Nest& nest, const CudaTiles& plan, int width, int threads)
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
  const CudaTiles& plan_;
  const int last_;
  const int row_vectors_, vectors_, rounds_;  // vectors of a tile's row, of a tile; of a thread
  const bool is_whole_;                       // every thread has a vector in every round
};

}  // namespace

std::string TileText(BodyEmitter* body, const Nest& nest, const CudaTiles& plan, int width,
                     int threads, const std::map<size_t, TileFill>& fills,
                     const std::string& lines) {
  return TileWriter(body, nest, plan, width, threads).Write(fills, lines);
}

}  // namespace tensord::compiler
