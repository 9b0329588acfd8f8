// SPDX-License-Identifier: Apache-2.0
// How a kernel reports what eager refuses of its data, so that the runtime fails the call.
#ifndef TENSORD_CPU_FAULT_H_
#define TENSORD_CPU_FAULT_H_

#include "mask.h"
#include "tensord/kernel_abi.h"
#include "types.h"

namespace tk {

// The report to fill in, of a kind; none where another has been made before.
TK_FN TensordFault* claim_fault(const TensordKernelArgs* args, TensordFaultKind kind) {
  TensordFault* const fault = args->host->fault;
  int32_t none = TENSORD_FAULT_NONE;
  const bool is_first = __atomic_compare_exchange_n(&fault->kind, &none, int32_t(kind), false,
                                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return is_first ? fault : nullptr;
}

// Reports a kind where a lane is bad.
template <int W>
TK_FN void report_lanes(const TensordKernelArgs* args, TensordFaultKind kind, Mask<W> bad) {
  if (mask_any(bad)) [[unlikely]]
    claim_fault(args, kind);
}

}  // namespace tk

#endif  // TENSORD_CPU_FAULT_H_
