// SPDX-License-Identifier: Apache-2.0
// The CUDA prelude as plain C++, for tests of its numbers: CUDA's words and the functions of its
// library that the prelude uses, and in place of ptx.cuh portable code. A block's threads are
// fibers of one thread of the host (RunBlock), which meet at every shuffle, vote and barrier.
//
// To be included after all other headers: `__noinline__` and `__forceinline__` are macros here, as
// in CUDA, and the CPU prelude is included as namespace tk_cpu.
#ifndef TENSORD_TESTS_UNIT_TESTING_CUDA_ON_HOST_H_
#define TENSORD_TESTS_UNIT_TESTING_CUDA_ON_HOST_H_

#include <setjmp.h>
#include <ucontext.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define tk tk_cpu
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/lift_special.h"
#undef tk
#undef TK_FN
#undef TK_OPERATOR
#undef TK_COMPARE
#undef TK_REDUCE
#undef TK_ROUND

#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline, unused))

// --- threads
//
// A fiber runs until it waits for others, then the next one does: the order is the same every time.

struct HostDim {
  unsigned x = 0, y = 0, z = 0;
};
inline thread_local HostDim threadIdx, blockDim;

namespace cuda_on_host {

struct Block;
inline thread_local Block* block = nullptr;

struct Block {
  Block(int threads, const std::function<void()>& f)
      : body(f), fibers(threads), stacks(new char[threads * kStackBytes]) {
    for (int i = 0; i < threads; ++i) {
      ucontext_t& context = fibers[i].context;
      getcontext(&context);
      context.uc_stack.ss_sp = stacks.get() + i * kStackBytes;
      context.uc_stack.ss_size = kStackBytes;
      context.uc_link = &caller;
      makecontext(
          &context,
          [] {
            block->body();
            block->fibers[threadIdx.x].is_done = true;
            block->Yield();
          },
          0);
    }
  }
  // Runs the next fiber that is not done; the last one returns to the caller by its link.
  void Yield() {
    const size_t mine = threadIdx.x;
    size_t next = mine;
    do {
      next = (next + 1) % fibers.size();
    } while (fibers[next].is_done && next != mine);
    if (next == mine) return;
    threadIdx.x = unsigned(next);
    // A context is switched to once; later switches need no system call for the signal mask.
    if (_setjmp(fibers[mine].place) != 0) return;
    if (fibers[next].has_begun) _longjmp(fibers[next].place, 1);
    fibers[next].has_begun = true;
    setcontext(&fibers[next].context);
  }

  struct Fiber {
    ucontext_t context;
    jmp_buf place;  // where it yielded
    bool has_begun = false, is_done = false;
  };
  static constexpr size_t kStackBytes = 128 << 10;
  const std::function<void()>& body;
  std::vector<Fiber> fibers;
  const std::unique_ptr<char[]> stacks;
  ucontext_t caller;
  int votes = 0;
  // Those who wait for each other: the block, and by size and first lane the parts of a warp, of
  // which others may have left the kernel.
  struct Meeting {
    int arrived = 0;
    unsigned number = 0;
  };
  Meeting whole, parts[16];
  struct Warp {
    Meeting of_size[6][32];
    uint32_t word[32];
  } warps[32];

  void Meet(Meeting& meeting, int size) {
    const unsigned number = meeting.number;
    if (++meeting.arrived == size) {
      meeting.arrived = 0;
      ++meeting.number;
    }
    while (meeting.number == number) Yield();
  }
  void Meet() { Meet(whole, int(fibers.size())); }
};

// Runs f in `threads` threads, a multiple of 32.
inline void RunBlock(int threads, const std::function<void()>& f) {
  Block all(threads, f);
  block = &all;
  blockDim.x = unsigned(threads);
  threadIdx.x = 0;
  all.fibers[0].has_begun = true;
  swapcontext(&all.caller, &all.fibers[0].context);
}

// The words of the lanes in `lanes`, which this lane is one of, given to `read`: 1, 2, 4, 8, 16 or
// 32 lanes that follow each other.
template <class F>
auto Exchange(unsigned lanes, uint32_t x, const F& read) {
  Block::Warp& warp = block->warps[threadIdx.x / 32];
  const int size = std::popcount(lanes);
  Block::Meeting& meeting = warp.of_size[std::countr_zero(unsigned(size))][std::countr_zero(lanes)];
  warp.word[threadIdx.x % 32] = x;
  block->Meet(meeting, size);
  const uint32_t r = read(warp.word);
  block->Meet(meeting, size);
  return r;
}
inline int CountVotes(bool x) {
  block->votes += x;
  block->Meet();
  const int r = block->votes;
  block->Meet();
  if (threadIdx.x == 0) block->votes = 0;
  block->Meet();
  return r;
}

}  // namespace cuda_on_host

inline uint32_t __shfl_sync(unsigned lanes, uint32_t x, int from) {
  return cuda_on_host::Exchange(lanes, x, [&](const uint32_t* words) { return words[from % 32]; });
}
inline uint32_t __shfl_xor_sync(unsigned lanes, uint32_t x, int mask) {
  return __shfl_sync(lanes, x, int(threadIdx.x % 32) ^ mask);
}
inline float __shfl_xor_sync(unsigned lanes, float x, int mask) {
  return std::bit_cast<float>(__shfl_xor_sync(lanes, std::bit_cast<uint32_t>(x), mask));
}
inline uint32_t __shfl_up_sync(unsigned lanes, uint32_t x, int by, int width) {
  const int lane = int(threadIdx.x % 32);
  return __shfl_sync(lanes, x, lane % width >= by ? lane - by : lane);
}
inline unsigned __ballot_sync(unsigned lanes, bool x) {
  return cuda_on_host::Exchange(lanes, x, [&](const uint32_t* words) {
    unsigned bits = 0;
    for (int i = 0; i < 32; ++i) {
      if ((lanes >> i & 1) != 0) bits |= words[i] << i;
    }
    return bits;
  });
}
inline int __any_sync(unsigned lanes, bool x) { return __ballot_sync(lanes, x) != 0; }
inline void __syncthreads() { cuda_on_host::block->Meet(); }
inline int __syncthreads_or(int x) { return cuda_on_host::CountVotes(x != 0) != 0; }
inline int __syncthreads_and(int x) { return cuda_on_host::CountVotes(x == 0) == 0; }
inline void __syncwarp(unsigned lanes = 0xffffffffu) { __ballot_sync(lanes, false); }

// --- memory

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
void __stcs(T* p, T x) {
  *p = x;
}
template <class T>
T atomicAdd(T* p, T x) {
  return std::atomic_ref<T>(*p).fetch_add(x);
}
inline unsigned atomicInc(unsigned* p, unsigned most) {
  unsigned old = std::atomic_ref<unsigned>(*p).load();
  while (!std::atomic_ref<unsigned>(*p).compare_exchange_weak(old, old >= most ? 0 : old + 1)) {
  }
  return old;
}
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline unsigned atomicCAS(unsigned* p, unsigned expected, unsigned x) {
  std::atomic_ref<unsigned>(*p).compare_exchange_strong(expected, x);
  return expected;
}

// --- functions

inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline double erfinv(double x) { return tk_cpu::scalar::erfinv(x); }
inline float erfinvf(float x) { return float(erfinv(x)); }

// --- ptx.cuh

#define TENSORD_CUDA_PTX_CUH_
#define TK_HAS_E4M3 0
#define TK_HAS_BFLOAT16_ADD 1

namespace tk::ptx {

[[noreturn]] inline void fail_index() {
  std::fputs("index out of bounds\n", stderr);
  std::abort();
}
[[noreturn]] inline void trap() { fail_index(); }
[[noreturn]] inline void fail_probability() {
  std::fputs("not between 0 and 1\n", stderr);
  std::abort();
}
template <class U>
U load_evict_last(const U* p) {
  return *p;
}
template <class S>
uint16_t Encode(float x) {
  return tk_cpu::encode<S, 1>(tk_cpu::Vec<float, 1>{{x}}).part[0];
}
inline float half_to_float(uint16_t bits) {
  return tk_cpu::decode<tk_cpu::half, 1>(tk_cpu::Vec<uint16_t, 1>{{bits}}).part[0];
}
inline uint16_t float_to_half(float x) { return Encode<tk_cpu::half>(x); }
inline uint16_t float_to_bfloat16(float x) { return Encode<tk_cpu::bfloat16>(x); }
inline uint32_t floats_to_halves(float low, float high) {
  return uint32_t(float_to_half(high)) << 16 | float_to_half(low);
}
inline uint32_t floats_to_bfloat16s(float low, float high) {
  return uint32_t(float_to_bfloat16(high)) << 16 | float_to_bfloat16(low);
}
// Minus 0 is less than 0, as on the device.
inline float min_nan(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::nanf("");
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
inline float max_nan(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::nanf("");
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}
inline float exp2_approx(float x) {
  const float r = std::exp2(x);
  return r < 0x1p-126f ? 0.0f : r;
}
inline float reciprocal_approx(float x) {
  const float r = 1 / x;
  return std::fabs(r) < 0x1p-126f ? std::copysign(0.0f, r) : r;
}
inline int behind_branch(int x) { return x; }
inline void meet(int barrier, int threads) {
  cuda_on_host::block->Meet(cuda_on_host::block->parts[barrier], threads);
}
template <class Add>
void AddToBits(void* p, const Add& add) {
  std::atomic_ref<uint16_t> at(*static_cast<uint16_t*>(p));
  uint16_t old = at.load();
  while (!at.compare_exchange_weak(old, add(old))) {
  }
}
inline void add_half(void* p, uint16_t bits) {
  AddToBits(
      p, [bits](uint16_t old) { return float_to_half(half_to_float(old) + half_to_float(bits)); });
}
inline void add_bfloat16(void* p, uint16_t bits) {
  const auto value = [](uint32_t x) { return __builtin_bit_cast(float, x << 16); };
  AddToBits(p, [&](uint16_t old) { return float_to_bfloat16(value(old) + value(bits)); });
}
#define TK_HAS_VECTOR_ADD 1
inline void add_float2(void* p, float a, float b) {
  atomicAdd(static_cast<float*>(p), a), atomicAdd(static_cast<float*>(p) + 1, b);
}
inline void add_float4(void* p, float a, float b, float c, float d) {
  add_float2(p, a, b), add_float2(static_cast<float*>(p) + 2, c, d);
}
inline void store_release(unsigned long long* p, unsigned long long x) {
  std::atomic_ref(*p).store(x, std::memory_order_release);
}
inline unsigned long long load_acquire(const unsigned long long* p) {
  return std::atomic_ref(*const_cast<unsigned long long*>(p)).load(std::memory_order_acquire);
}
inline void store_relaxed(unsigned long long* p, unsigned long long x) {
  std::atomic_ref(*p).store(x, std::memory_order_relaxed);
}
inline unsigned long long load_relaxed(const unsigned long long* p) {
  return std::atomic_ref(*const_cast<unsigned long long*>(p)).load(std::memory_order_relaxed);
}

}  // namespace tk::ptx

#include "tensord/cuda/cuda.cuh"
#include "tensord/cuda/lift_special.cuh"

#endif  // TENSORD_TESTS_UNIT_TESTING_CUDA_ON_HOST_H_
