// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/column_tiles.h"

#include <algorithm>

#include "compiler/schedule/cuda/row_vectors.h"
#include "compiler/schedule/cuda/threads.h"

namespace tensord::compiler {
namespace {

// Threads of a multiprocessor that have several vectors under way each; more where these are of
// several operands and little is kept beside, and fewer where much is.
constexpr int kTileThreads = 768;
constexpr int kLightTileThreads = 1024;
constexpr int kHeavyTileThreads = 512;
constexpr int kMostKept = 40;
constexpr int kMostKeptOfLight = 20;
// Loads that a thread of a tile should have under way.
constexpr int kLoadsAtOnce = 4;

}  // namespace

ColumnTiling TileColumns(const NestContext& context) {
  const Widths& widths = context.widths;
  const RowVectors vectors = ChooseRowVectors(context, /*may_peel=*/false);
  ColumnTiling tiling{.width = vectors.width, .threads = context.Threads(kUsualThreads)};
  // Few columns: a warp takes several rows at once.
  tiling.group = {
      .threads = PartOfWarp(vectors.Hint()), .register_vectors = 1, .access = vectors.access};
  const int kept = widths.column_vectors * vectors.width;
  const bool light = kept <= kMostKeptOfLight && widths.row_vectors > 1;
  const int threads = kept > kMostKept ? kHeavyTileThreads
                      : light          ? kLightTileThreads
                                       : kTileThreads;
  tiling.resident = std::max(1, threads / tiling.threads);
  tiling.tiles.rows_in_flight =
      std::clamp(kLoadsAtOnce / std::max(1, widths.row_vectors), 1, kLoadsAtOnce);
  const Expr tiles = sym::CeilDiv(vectors.count, Expr(tiling.group.threads));
  const int64_t sweeps = std::max<int64_t>(
      1, context.Multiprocessors() * tiling.resident / std::max<int64_t>(1, sym::Hint(tiles)));
  const int groups = tiling.threads / tiling.group.threads;
  tiling.copies = sym::Min(sym::CeilDiv(context.rows, Expr(groups)), Expr(sweeps));
  tiling.blocks = tiles * tiling.copies;
  return tiling;
}

}  // namespace tensord::compiler
