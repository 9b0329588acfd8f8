// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cuda/scan_totals.h"

namespace tensord::compiler {

ScanTotals::ScanTotals(const Nest& nest, const CudaPlan& plan, KernelInterface* interface)
    : depths_(nest) {
  if (plan.scanned_parts() == 1) return;
  Expr parts = sym::Product(nest.outer) * plan.scanned_parts();
  if (plan.Is<CudaColumns>()) parts *= nest.inner.back();
  for (const NestScan& scan : depths_.scans()) {
    const DType dtype = ComputeType(scan.member->loops.block.insts[scan.inst].dtype);
    offsets_[{scan.member, scan.inst}] = interface->ReserveScratch(parts * ItemSize(dtype));
  }
}

}  // namespace tensord::compiler
