// SPDX-License-Identifier: Apache-2.0
// The interface between a generated CPU kernel and the runtime that calls it. Plain C; included by
// generated code, so it includes nothing but <stdint.h>.
#ifndef TENSORD_KERNEL_ABI_H_
#define TENSORD_KERNEL_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Runs [begin, end) on part of an iteration space; `context` is the caller's.
typedef void (*TensordRangeFn)(int64_t begin, int64_t end, void* context);

// An index from data that was out of range. A kernel that finds one goes on with another in range;
// the runtime fails the call behind it.
typedef struct TensordIndexFault {
  int32_t seen;       // 0 at first; who makes it 1 fills in the rest
  int32_t dimension;  // that was indexed; -1: the classes of a loss
  int64_t index;      // as it was given
  int64_t size;
} TensordIndexFault;

typedef struct TensordKernelHost {
  // Splits [begin, end) into at most `threads` ranges of at least `grain` and runs them on the
  // job's thread pool; returns when all are done. Ranges are disjoint and cover the whole.
  void (*parallel_for)(int64_t begin, int64_t end, int64_t grain, TensordRangeFn fn, void* context);
  // Threads that parallel_for uses at most; at least 1.
  int32_t threads;
  TensordIndexFault* index_fault;  // never null
} TensordKernelHost;

typedef struct TensordKernelArgs {
  void* const* buffers;     // one per KernelLaunch.buffers, at the first element
  const int64_t* integers;  // one per KernelLaunch.integers
  void* scratch;            // threads * scratch_bytes_per_thread, 64-aligned, not cleared
  const TensordKernelHost* host;
} TensordKernelArgs;

typedef void (*TensordKernelFn)(const TensordKernelArgs* args);

#ifdef __cplusplus
}
#endif

#endif  // TENSORD_KERNEL_ABI_H_
