// SPDX-License-Identifier: Apache-2.0
// What every generated CPU kernel includes, as "tensord/cpu.h". Kernels are compiled with the flags
// of compiler/jit/cxx/toolchain.cc, which the prelude counts on (-fwrapv, -fno-strict-aliasing,
// -ffp-contract=fast).
//
// A loop picks one lane count W: tk::kLanes, or 1. Every type in the loop is a Vec<T, W>; floats
// that are smaller than 32 bits are loaded as float.
//
//   using namespace tk;
//   for (int64_t i = begin; i < end; i += kLanes) {
//     const int64_t n = end - i;   // the tail runs the same body
//     auto x = n >= kLanes ? load<half, kLanes>(p + i) : load_tail<half, kLanes>(p + i, n);
//     auto y = tanh(x) * broadcast<kLanes>(0.5f);
//     n >= kLanes ? store(q + i, y) : store_tail(q + i, y, n);
//   }
//
// types.h      storage types, Compute<S>, kLanes
// vec.h        Vec, Mask, broadcast, iota, bitcast
// mask.h       comparisons, where
// convert.h    cast
// memory.h     load*, gather*, store*, scatter*
// arith.h      + - * / and rounding, division, bits
// math*.h      elementary functions
// random.h     Philox: uniform, normal, integers
// reduce.h     across lanes; argmax, Welford, online softmax
// scan.h       prefixes along lanes
// transpose.h  tiles
// atomic.h     accumulating scatter
// generated.h  what the code generator relies on besides
#ifndef TENSORD_CPU_CPU_H_
#define TENSORD_CPU_CPU_H_

#include "arith.h"
#include "atomic.h"
#include "generated.h"
#include "math.h"
#include "memory.h"
#include "random.h"
#include "reduce.h"
#include "scan.h"
#include "transpose.h"

#endif  // TENSORD_CPU_CPU_H_
