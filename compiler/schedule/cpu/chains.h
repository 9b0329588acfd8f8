// SPDX-License-Identifier: Apache-2.0
// How long the chains of additions are by which sums are gathered. Each addition rounds, so the
// error of a long chain grows with its length, up to terms that change nothing any more. A chain is
// cut into parts: an accumulator that starts anew for each, and a whole to which the parts are
// added. Errors then grow as those of both, of about the square root of the length.
#ifndef TENSORD_COMPILER_SCHEDULE_CPU_CHAINS_H_
#define TENSORD_COMPILER_SCHEDULE_CPU_CHAINS_H_

#include "compiler/schedule/cpu/plan.h"
#include "compiler/schedule/nest_reductions.h"

namespace tensord::compiler {

// Whether roundings add up along its chain: sums of floating-point numbers, and moments.
bool HasRoundings(const NestReduction& reduction);

// CpuPlan::chains, of a plan that is made but for these. Chains are left whole that are short, and
// where adding parts would show in the time. Lengths of loops are as at capture.
CpuChains CutChains(const Nest& nest, const CpuPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CPU_CHAINS_H_
