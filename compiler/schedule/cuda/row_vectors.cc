// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/row_vectors.h"

#include <algorithm>

#include "compiler/schedule/cuda/register_resident.h"

namespace tensord::compiler {
namespace {

// Rows are read by interleaved lanes where aligned vectors would be so many times narrower than
// wished.
constexpr int kMostWaste = 4;
// Bytes of an element that is read one by one as fast.
constexpr int kWideElement = 4;
// Elements of a row in the registers of a thread where blocks are large, and leave 64 for each.
constexpr int kLargeBlock = 512;
constexpr int kMostRegisterElementsOfLarge = 24;

bool IsPartial(const Widths& w) { return w.partial > w.aligned && 2 * w.partial >= w.wished; }
bool IsWasteful(const Widths& w) { return w.aligned * kMostWaste <= w.wished; }

RowVectors OfWidth(const NestContext& context, int width, RowAccess access) {
  return {width, access, sym::CeilDiv(sym::Product(context.nest.inner), Expr(width))};
}

}  // namespace

int64_t RowVectors::Hint() const { return std::max<int64_t>(1, sym::Hint(count)); }

bool AreWiderWithinRows(const Widths& w) { return w.straight && (IsPartial(w) || IsWasteful(w)); }

bool MayLoadUnaligned(const Widths& w, bool may_peel) {
  return IsWasteful(w) && !IsPartial(w) && w.narrowest < kWideElement &&
         (w.unaligned_loads || (may_peel && w.peeled));
}

int64_t RegisterElementsOfVector(const NestContext& context, int width) {
  return int64_t{width} * std::max(1, RegisterResidentArrays(context.nest));
}

int VectorsInRegisters(const NestContext& context, const RowVectors& vectors, int group,
                       int threads) {
  const int64_t of_thread = sym::CeilDiv(vectors.Hint(), group);
  const int64_t most = threads > kLargeBlock ? kMostRegisterElementsOfLarge : kMostRegisterElements;
  const bool fits = vectors.count.AsConstant().has_value() &&
                    of_thread * RegisterElementsOfVector(context, vectors.width) <= most;
  return fits ? static_cast<int>(of_thread) : 0;
}

RowVectors AlignedRowVectors(const NestContext& context) {
  return {context.widths.aligned, RowAccess::kAligned, context.aligned_vectors};
}

RowVectors ChooseRowVectors(const NestContext& context, bool may_peel) {
  const Widths& widths = context.widths;
  if (!context.HasLongRow()) return AlignedRowVectors(context);
  if (IsPartial(widths)) {  // rows in wide memory, like a product's padded result
    return OfWidth(context, widths.partial, RowAccess::kPartial);
  }
  if (MayLoadUnaligned(widths, may_peel)) {
    return OfWidth(context, widths.wished,
                   widths.unaligned_loads ? RowAccess::kUnaligned : RowAccess::kPeeled);
  }
  if (IsWasteful(widths)) return OfWidth(context, widths.wished, RowAccess::kInterleaved);
  return AlignedRowVectors(context);
}

}  // namespace tensord::compiler
