// SPDX-License-Identifier: Apache-2.0
// What the parts of scanned rows or columns come to.
//
// Rows and columns that are scanned in parts are read once more, by launches before the scan: the
// first finds the totals of the scans that need no other, the next of those that need their
// prefixes. Each part then starts from the totals of all parts before it. As the parts are the same
// in every run, so are sums of floats. A look-back in one launch would read once, but wait for its
// neighbours at each of the nest's scans, and leave memory to be cleared for the next run.
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_SCAN_TOTALS_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_SCAN_TOTALS_H_

#include <map>
#include <utility>

#include "compiler/codegen/interface.h"
#include "compiler/schedule/cuda/plan.h"
#include "compiler/schedule/cuda/scan_depths.h"

namespace tensord::compiler {

class ScanTotals {
 public:
  // Reserves scratch memory where the plan has parts.
  ScanTotals(const Nest& nest, const CudaPlan& plan, KernelInterface* interface);

  const ScanDepths& depths() const { return depths_; }
  // Launches before the scan; launch number n, from 1 on, finds the totals of scans of depth n.
  int launches() const { return offsets_.empty() ? 0 : depths_.deepest(); }
  // Bytes of scratch memory before a scan's totals: of rows a number of each part, of columns a
  // vector of each thread.
  const Expr& OffsetOf(const NestMember& member, int inst) const {
    return offsets_.at({&member, inst});
  }

 private:
  ScanDepths depths_;
  std::map<std::pair<const NestMember*, int>, Expr> offsets_;
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_SCAN_TOTALS_H_
