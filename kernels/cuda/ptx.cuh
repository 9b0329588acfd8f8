// SPDX-License-Identifier: Apache-2.0
// What PTX alone can say. The tests replace this file by portable code
// (tests/unit/testing/cuda_on_host.h).
#ifndef TENSORD_CUDA_PTX_CUH_
#define TENSORD_CUDA_PTX_CUH_

#include "tensord/cuda/types.cuh"

// Whether the multiprocessor converts e4m3 (sm_89 and later).
#if __CUDA_ARCH__ >= 890
#define TK_HAS_E4M3 1
#else
#define TK_HAS_E4M3 0
#endif

// The driver's: what a failed assert() calls.
extern "C" __device__ __attribute__((noreturn)) void __assertfail(const char* message,
                                                                  const char* file, unsigned line,
                                                                  const char* function,
                                                                  decltype(sizeof(0)) char_size);

namespace tk::ptx {

// --- the end of a kernel

// Ends it as eager's assertion does: the launch's error is cudaErrorAssert. A function without
// arguments, so that the kernel keeps no register for the call.
[[noreturn]] TK_CALL void fail_index() {
  __assertfail("index out of bounds", "a kernel of tensord", 0, "checked_index", 1);
}
[[noreturn]] TK_CALL void fail_probability() {
  __assertfail("not between 0 and 1", "a kernel of tensord", 0, "checked_probability", 1);
}

// The same without a call; the launch's error is cudaErrorLaunchFailure.
TK_FN void trap() { asm volatile("trap;"); }

// --- the order of kernels
#if __CUDA_ARCH__ >= 900
TK_FN void let_next_kernel_begin() { asm volatile("griddepcontrol.launch_dependents;"); }
TK_FN void wait_for_kernels_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#endif

// --- memory

TK_FN uint64_t policy_evict_last() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// 16 bytes of global memory, which the caches evict last.
TK_FN uint4 load_evict_last(const uint4* p) {
  uint4 r;
  asm volatile("ld.global.L1::evict_last.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "l"(p), "l"(policy_evict_last()));
  return r;
}
TK_FN ulonglong2 load_evict_last(const ulonglong2* p) {
  ulonglong2 r;
  asm volatile("ld.global.L1::evict_last.L2::cache_hint.v2.u64 {%0, %1}, [%2], %3;"
               : "=l"(r.x), "=l"(r.y)
               : "l"(p), "l"(policy_evict_last()));
  return r;
}

// --- conversions of small floats. Rounding to nearest even; NaN becomes the device's own NaN.
// Pairs have the first element in the low bits.

TK_FN float half_to_float(uint16_t bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
TK_FN uint16_t float_to_half(float x) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
TK_FN uint32_t floats_to_halves(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(pair) : "f"(low), "f"(high));
  return pair;
}
TK_FN uint16_t float_to_bfloat16(float x) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
TK_FN uint32_t floats_to_bfloat16s(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(pair) : "f"(low), "f"(high));
  return pair;
}
#if TK_HAS_E4M3
// What is too large becomes the largest number.
TK_FN uint16_t floats_to_e4m3s(float low, float high) {
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %2, %1;" : "=h"(pair) : "f"(low), "f"(high));
  return pair;
}
// As a pair of halves.
TK_FN uint32_t e4m3s_to_halves(uint16_t pair) {
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
  return halves;
}
#endif

// --- arithmetic

// NaN in either operand gives NaN.
TK_FN float min_nan(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
TK_FN float max_nan(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
// 1/x to 1 ulp; subnormal results are flushed to 0.
TK_FN float reciprocal_approx(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// 2^x to 2 units in the last place; subnormal results are flushed to 0.
TK_FN float exp2_approx(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// x, of which the compiler knows nothing: what depends on it stays behind the branch that leads to
// it.
TK_FN int behind_branch(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

// --- memory

// Adds to a half or a bfloat16 in global memory; the addend is rounded first.
TK_FN void add_half(void* p, uint16_t bits) {
  asm volatile("red.global.add.noftz.f16 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "h"(bits)
               : "memory");
}
#if __CUDA_ARCH__ >= 900
#define TK_HAS_BFLOAT16_ADD 1
TK_FN void add_bfloat16(void* p, uint16_t bits) {
  asm volatile("red.global.add.noftz.bf16 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "h"(bits)
               : "memory");
}
#else
#define TK_HAS_BFLOAT16_ADD 0
#endif

// Several neighbours by one instruction; each addition is indivisible, the whole is not. The
// address is a multiple of the size.
#if __CUDA_ARCH__ >= 900
#define TK_HAS_VECTOR_ADD 1
TK_FN void add_float2(void* p, float a, float b) {
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(p)), "f"(a),
               "f"(b)
               : "memory");
}
TK_FN void add_float4(void* p, float a, float b, float c, float d) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),
               "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}
#else
#define TK_HAS_VECTOR_ADD 0
#endif

// A barrier of some of a block's warps: of `threads` threads; barrier 0 is the whole block's.
TK_FN void meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Words of 64 bits that other blocks wait for: everything before a release is seen after an
// acquire that reads it.
TK_FN void store_release(unsigned long long* p, unsigned long long x) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(x)
               : "memory");
}
TK_FN unsigned long long load_acquire(const unsigned long long* p) {
  unsigned long long x;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];"
               : "=l"(x)
               : "l"(__cvta_generic_to_global(p))
               : "memory");
  return x;
}
TK_FN void store_relaxed(unsigned long long* p, unsigned long long x) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "l"(x)
               : "memory");
}
TK_FN unsigned long long load_relaxed(const unsigned long long* p) {
  unsigned long long x;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
               : "=l"(x)
               : "l"(__cvta_generic_to_global(p))
               : "memory");
  return x;
}

}  // namespace tk::ptx

#endif  // TENSORD_CUDA_PTX_CUH_
