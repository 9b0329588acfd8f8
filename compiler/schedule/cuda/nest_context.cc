// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/nest_context.h"

#include <algorithm>

#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {
namespace {

// Where the target does not say.
constexpr int kUsualRegisters = 64 << 10;
// Threads of a multiprocessor that sweep: more hide latency better, fewer leave less to combine.
constexpr int kSweepThreads = 1024;

}  // namespace

NestContext::NestContext(const Program& program, const Nest& nest, const v1::CudaTarget& target,
                         int fixed_threads)
    : program(program),
      nest(nest),
      target(target),
      fixed_threads(fixed_threads),
      widths(ChooseWidths(program, nest)),
      rows(sym::Product(nest.outer)),
      aligned_vectors(nest.inner.empty()
                          ? Expr(1)
                          : sym::FloorDiv(sym::Product(nest.inner), Expr(widths.aligned))) {}

Expr NestContext::ColumnVectors(int width) const {
  return nest.inner.empty() ? Expr(1) : sym::FloorDiv(nest.inner.back(), Expr(width));
}

int NestContext::Multiprocessors() const { return std::max<int>(1, target.multiprocessors()); }

int NestContext::Registers() const {
  const auto registers = static_cast<int>(target.registers_per_multiprocessor());
  return registers > 0 ? registers : kUsualRegisters;
}

int NestContext::SweepBlocks(int threads) const {
  return Multiprocessors() * std::max(1, kSweepThreads / threads);
}

bool NestContext::HasFewLongRows() const {
  return sym::Hint(rows) < Multiprocessors() &&
         sym::Hint(aligned_vectors) >= int64_t{kLeastVectorsOfPart} * 2 * kUsualThreads;
}

bool NestContext::HasLongRow() const {
  return nest.inner.size() == 1 && sym::Hint(nest.inner[0]) >= kLeastLongRow &&
         !HasArgReduction(nest);
}

}  // namespace tensord::compiler
