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

// What eager refuses of data. A kernel that finds it goes on with something harmless instead; the
// runtime fails the call behind it.
typedef enum TensordFaultKind {
  TENSORD_FAULT_NONE = 0,
  TENSORD_FAULT_INDEX = 1,              // an index out of range
  TENSORD_FAULT_DIVISION = 2,           // an integer divided by 0
  TENSORD_FAULT_PROBABILITY = 3,        // what a loss predicts is not in [0, 1]
  TENSORD_FAULT_TARGET = 4,             // what it should be is not in [0, 1]
  TENSORD_FAULT_DRAWN_PROBABILITY = 5,  // that of a random number is not in [0, 1]
  TENSORD_FAULT_DEVIATION = 6,          // the standard deviation of random numbers is not >= 0
} TensordFaultKind;

typedef struct TensordFault {
  int32_t kind;  // TENSORD_FAULT_NONE at first; who makes it another fills in the rest
  // Of an index:
  int32_t dimension;  // that was indexed; -1: the classes of a loss
  int64_t index;      // as it was given
  int64_t size;
} TensordFault;

typedef struct TensordKernelHost {
  // Splits [begin, end) into at most `threads` ranges of at least `grain` and runs them on the
  // job's thread pool; returns when all are done. Ranges are disjoint and cover the whole.
  void (*parallel_for)(int64_t begin, int64_t end, int64_t grain, TensordRangeFn fn, void* context);
  // Threads that parallel_for uses at most; at least 1.
  int32_t threads;
  TensordFault* fault;  // never null
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
