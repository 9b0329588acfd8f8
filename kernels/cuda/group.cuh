// SPDX-License-Identifier: Apache-2.0
// Reductions across a group of G threads; every thread of the group gets the result, and all get
// the same bits. The order is fixed.
//
//   G = 1, 2, 4, 8, 16, 32   threads of one warp that follow each other, the first a multiple of G.
//                            Groups of a warp need not agree. `shared` is not used.
//   G = 64, 96, ..., 1024    the whole block, of exactly G threads (one-dimensional). `shared` is
//                            kGroupSharedBytes of shared memory, aligned to 16 bytes.
//
// `shared` is a pointer, or a GroupMemory, with which a block's reduction has one barrier less.
// With groups_of(GroupMemory) a block has several groups of whole warps, at most 15, which need not
// agree.
#ifndef TENSORD_CUDA_GROUP_CUH_
#define TENSORD_CUDA_GROUP_CUH_

#include "tensord/cuda/reduce.cuh"

namespace tk {

namespace impl {
enum : int { kMostWarps = 32, kMostSlotBytes = 24 };  // a Welford state of double
}  // namespace impl

// Two sets of slots, one per warp.
enum : int { kGroupSharedBytes = 2 * impl::kMostWarps * impl::kMostSlotBytes };

// The shared memory of one block's reductions, which take turns with two sets of slots. A thread
// keeps one GroupMemory for all reductions on the same bytes.
struct GroupMemory {
  void* shared;
  int turn = 0;
};

// The same for one of several groups of a block, which has slots and a barrier of its own: groups
// do not wait for each other, and may be at different reductions.
struct PartMemory {
  GroupMemory& memory;
};
TK_FN PartMemory groups_of(GroupMemory& memory) { return {memory}; }

// --- moving values between the lanes of a warp

namespace impl {

TK_FN int lane() { return int(threadIdx.x % 32); }

// The lanes of this thread's group of N.
template <int N>
TK_FN unsigned group_lanes() {
  if constexpr (N >= 32)
    return 0xffffffffu;
  else
    return ((1u << N) - 1) << (lane() & -N);
}

template <int N>
struct XorLane {
  int mask;
  __device__ __forceinline__ uint32_t operator()(uint32_t x) const {
    return __shfl_xor_sync(group_lanes<N>(), x, mask);
  }
};
template <int N>
struct FromLane {
  int from;
  __device__ __forceinline__ uint32_t operator()(uint32_t x) const {
    return __shfl_sync(group_lanes<N>(), x, from);
  }
};

template <class T, class Way>
TK_FN T shuffle(T x, Way way) {
  if constexpr (sizeof(T) == 8) {
    const uint64_t bits = __builtin_bit_cast(uint64_t, x);
    const uint64_t high = way(uint32_t(bits >> 32));
    return __builtin_bit_cast(T, high << 32 | way(uint32_t(bits)));
  } else {
    return __builtin_bit_cast(T, Bits<T>(way(__builtin_bit_cast(Bits<T>, x))));
  }
}
template <class T, class Way>
TK_FN Vec<T, 1> shuffle(Vec<T, 1> v, Way way) {
  return {{shuffle(v.at[0], way)}};
}
template <class T, int W, class Way>
TK_FN Vec<T, W> shuffle(Vec<T, W> v, Way way) {
  Vec<T, W> r;
  TK_EACH(i) r.at[i] = shuffle(v.at[i], way);
  return r;
}
template <class T, class Way>
TK_FN ArgVec<T, 1> shuffle(ArgVec<T, 1> s, Way way) {
  return {shuffle(s.value, way), shuffle(s.index, way)};
}
template <class T, class Way>
TK_FN Welford<T, 1> shuffle(Welford<T, 1> s, Way way) {
  return {shuffle(s.mean, way), shuffle(s.m2, way), shuffle(s.weight, way)};
}

// f over N lanes that follow each other, for all of them.
template <int N, class S, class F>
TK_FN S reduce_warp(S s, F f) {
#pragma unroll
  for (int k = N / 2; k > 0; k /= 2) s = f(s, shuffle(s, XorLane<N>{k}));
  return s;
}

// --- a block's slots
//
// A reduction writes its warp's value to a slot, meets at a barrier, and reads all slots. Nobody
// may write a slot again before all have read it. With a pointer, the reduction starts with another
// barrier: who passes it knows that all have left the one before. With a GroupMemory, the next
// reduction uses the other set, and the one after next writes this set again: in between lies the
// barrier of the next one, which a thread reaches only after it has read its slots here. What other
// code does with the bytes is the caller's to separate.

template <int G, class S>
TK_FN S* slots(void* shared) {
  __syncthreads();
  return static_cast<S*>(shared);
}
template <int G, class S>
TK_FN S* slots(GroupMemory& memory) {
  memory.turn ^= 1;
  return reinterpret_cast<S*>(static_cast<char*>(memory.shared) +
                              memory.turn * (kGroupSharedBytes / 2));
}
template <int G, class S>
TK_FN S* slots(PartMemory part) {
  constexpr int kBytes = G / 32 * kMostSlotBytes;
  char* const all = slots<G, char>(part.memory);
  return reinterpret_cast<S*>(all + threadIdx.x / G * kBytes);
}

// The barrier of a group.
template <int G, class M>
TK_FN void meet(M&) {
  __syncthreads();
}
template <int G>
TK_FN void meet(PartMemory&) {
  ptx::meet(int(threadIdx.x / G) + 1, G);
}
TK_FN constexpr int power_of_two_from(int n) {
  int p = 1;
  while (p < n) p *= 2;
  return p;
}

// Every warp merges all warps' values, so that no second exchange is needed.
template <int G, class S, class F, class M>
TK_FN S reduce_group(S s, F f, S identity, M&& memory) {
  if constexpr (G <= 32) {
    static_assert(G > 0 && (G & (G - 1)) == 0, "a part of a warp");
    return reduce_warp<G>(s, f);
  } else {
    static_assert(G % 32 == 0 && G <= 1024, "a block of whole warps");
    static_assert(sizeof(S) <= kMostSlotBytes, "a slot");
    constexpr int kWarps = G / 32, kSlots = power_of_two_from(kWarps);
    s = reduce_warp<32>(s, f);
    S* const slot = slots<G, S>(memory);
    if (lane() == 0) slot[threadIdx.x % G / 32] = s;
    meet<G>(memory);
    const int mine = lane() % kSlots;
    S other = identity;
    if (kWarps == kSlots || mine < kWarps) other = slot[mine];
    return reduce_warp<kSlots>(other, f);
  }
}

// For f that is not the same bits both ways round: lanes may differ, so the first one's counts.
template <int G, class S, class F, class M>
TK_FN S reduce_group_by_first(S s, F f, S identity, M&& memory) {
  const S r = reduce_group<G>(s, f, identity, memory);
  return shuffle(r, FromLane<G>{G <= 32 ? lane() & -G : 0});
}

}  // namespace impl

// Until all threads of the group are here, and what they have loaded may be overwritten. Groups: so
// many groups a block has.
template <int G, int Groups>
TK_FN void group_barrier() {
  if constexpr (G <= 32)
    __syncwarp(impl::group_lanes<G>());
  else if constexpr (Groups == 1)
    __syncthreads();
  else
    ptx::meet(int(threadIdx.x / G) + 1, G);
}

// --- the reductions

#define TK_GROUP_REDUCE(name, Combine, identity)                                                 \
  template <int G, class T, class M>                                                             \
  TK_FN T name(T x, M&& memory) {                                                                \
    return impl::reduce_group<G>(Vec<T, 1>{{x}}, impl::Combine(), Vec<T, 1>{{identity}}, memory) \
        .at[0];                                                                                  \
  }
TK_GROUP_REDUCE(group_add, Add, T(0))
TK_GROUP_REDUCE(group_mul, Mul, T(1))
TK_GROUP_REDUCE(group_min, Min, highest<T>())  // NaN wins
TK_GROUP_REDUCE(group_max, Max, lowest<T>())
#undef TK_GROUP_REDUCE

// Several sums with the barriers of one; a slot has room for 24 bytes.
template <int G, class T, int N, class M>
TK_FN Vec<T, N> group_add_each(Vec<T, N> x, M&& memory) {
  return impl::reduce_group<G>(x, impl::Add(), broadcast<N>(T(0)), memory);
}

namespace impl {
template <int G>
TK_FN unsigned group_votes(bool x) {
  return __ballot_sync(group_lanes<G>(), x) & group_lanes<G>();
}
}  // namespace impl
// A barrier that counts needs no memory, and may follow itself.
template <int G, class M>
TK_FN bool group_any(bool x, M&&) {
  if constexpr (G <= 32)
    return impl::group_votes<G>(x) != 0;
  else
    return __syncthreads_or(x) != 0;
}
template <int G, class M>
TK_FN bool group_all(bool x, M&&) {
  if constexpr (G <= 32)
    return impl::group_votes<G>(!x) == 0;
  else
    return __syncthreads_and(x) != 0;
}

template <int G, class T, class M>
TK_FN Welford<T, 1> group_welford(Welford<T, 1> s, M&& memory) {
  return impl::reduce_group_by_first<G>(s, impl::CombineWelford(), welford_init<T, 1>(), memory);
}
// Ties are broken by the index, so both ways round give the same.
template <int G, class T, class M>
TK_FN ArgVec<T, 1> group_argmax(ArgVec<T, 1> s, M&& memory) {
  return impl::reduce_group<G>(s, impl::ArgMax(), argmax_init<T, 1>(), memory);
}
template <int G, class T, class M>
TK_FN ArgVec<T, 1> group_argmin(ArgVec<T, 1> s, M&& memory) {
  return impl::reduce_group<G>(s, impl::ArgMin(), argmin_init<T, 1>(), memory);
}

namespace impl {
struct CombineSoftmax {
  __device__ __forceinline__ OnlineSoftmax<1> operator()(OnlineSoftmax<1> a,
                                                         OnlineSoftmax<1> b) const {
    return softmax_combine(a, b);
  }
};
// The maximum first: one exp per thread instead of two per step.
template <int N>
TK_FN OnlineSoftmax<1> softmax_warp(OnlineSoftmax<1> s) {
  if constexpr (N == 1) return s;
  const Vec<float, 1> max = reduce_warp<N>(s.max, Max());
  const Vec<float, 1> sum = {{softmax_rescaled(s, softmax_shift(max.at[0]))}};
  return {max, reduce_warp<N>(sum, Add())};
}
}  // namespace impl
template <int G, class M>
TK_FN OnlineSoftmax<1> group_softmax(OnlineSoftmax<1> s, M&& memory) {
  if constexpr (G <= 32) {
    return impl::softmax_warp<G>(s);
  } else {
    constexpr int kWarps = G / 32, kSlots = impl::power_of_two_from(kWarps);
    s = impl::softmax_warp<32>(s);
    OnlineSoftmax<1>* const slot = impl::slots<G, OnlineSoftmax<1>>(memory);
    if (impl::lane() == 0) slot[threadIdx.x % G / 32] = s;
    impl::meet<G>(memory);
    const int mine = impl::lane() % kSlots;
    OnlineSoftmax<1> other = softmax_init<1>();
    if (kWarps == kSlots || mine < kWarps) other = slot[mine];
    return impl::softmax_warp<kSlots>(other);
  }
}

// --- between groups

// f over the block's groups, for the threads of the first: T / G groups of G threads
// (one-dimensional block of T), each thread with N values for the same columns as its fellows in
// other groups have; B of them are handed over between two barriers. The upper half of the groups
// hands over to the lower one until one is left. `shared`: T / 2 * B values of type S.
template <int G, int T, int B, int N, class S, class F>
TK_FN void combine_groups(S (&v)[N], F f, void* shared) {
  S* const all = static_cast<S*>(shared);
  const int group = threadIdx.x / G;
#pragma unroll
  for (int first = 0; first < N; first += B) {
#pragma unroll
    for (int groups = T / G; groups > 1; groups = (groups + 1) / 2) {
      const int half = (groups + 1) / 2;
      __syncthreads();  // whoever read it before is done
#pragma unroll
      for (int k = first; k < N && k < first + B; ++k) {
        if (group >= half && group < groups) {
          all[(k - first) * (T / 2) + threadIdx.x - half * G] = v[k];
        }
      }
      __syncthreads();
#pragma unroll
      for (int k = first; k < N && k < first + B; ++k) {
        if (group < groups - half) v[k] = f(v[k], all[(k - first) * (T / 2) + threadIdx.x]);
      }
    }
  }
}
// The same for one value of each thread.
template <int G, int T, class S, class F>
TK_FN S combine_groups(S v, F f, void* shared) {
  S one[1] = {v};
  combine_groups<G, T, 1>(one, f, shared);
  return one[0];
}
// Shared memory of a block of 256 threads that combines states of one lane.
enum : int { kFinishSharedBytes = 256 / 2 * impl::kMostSlotBytes };

}  // namespace tk

#endif  // TENSORD_CUDA_GROUP_CUH_
