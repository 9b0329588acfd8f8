// SPDX-License-Identifier: Apache-2.0
// Prefix sums, and prefixes of any associative f: in a thread, in a group of threads (group.cuh),
// over a row that a group runs through, over one that several blocks share, and over a grid in one
// pass that reads and writes every element once.
//
// A row is run through by its group from front to back, a vector a thread at a time (group_scan):
//
//   tk::Vec<T, 1> before = {{identity}};
//   for (int first = 0; first < vectors; first += G) {
//     const auto v = first + lane < vectors ? tk::load<S, W>(...) : tk::broadcast<W>(identity);
//     const auto prefixes = tk::group_scan<G>(before, v, add, identity, memory);
//     if (first + lane < vectors) tk::store<S, W>(..., prefixes);
//   }
//
// Blocks that share a row scan a part each, once a launch before has left what every part comes to
// (group_total). Where f does not commute up to rounding it is no matter in which order these are
// combined, and it is the same in every run (group_before).
//
// The pass over a grid is a decoupled look-back (Merrill and Garland, "Single-pass parallel prefix
// scan with decoupled look-back", 2016) with a fixed tree: a tile publishes the total of its
// elements and then gathers what lies before it. The original takes whichever sums its predecessors
// happen to have; here it is always the tiles of its window of 32, the windows of its span of 32,
// and the spans before, so that sums of floats are the same in every run.
//
//   tiles[t]    total of tile t; waits for nothing
//   windows[w]  total of tiles 32w ... 32w+31; by the last of them, from tiles[]
//   spans[s]    total of all up to tile 1024s+1023; by the last of them, from all three
//
// A tile waits only for tiles with lower numbers. Blocks draw the numbers as they start
// (scan_tile), so those are running or done, and nobody waits for a block that has no place on the
// device.
//
// A kernel, one tile of G*W elements a block:
//
//   tk::GroupMemory memory{shared};
//   const int tile = tk::scan_tile<G>(scratch, memory);
//   const auto v = tk::load<S, W>(p + (tile * G + threadIdx.x) * W);
//   const auto sum = tk::scan_lanes(v, tk::ScanSum());
//   const auto before = tk::scan_grid<G>(get(sum, W - 1), tk::ScanSum(), T(0), scratch, tiles,
//   tile,
//                                        memory);
//   tk::store<S, W>(q + ..., tk::scan_after(before, sum, tk::ScanSum()));
//
// `scratch` is scan_scratch_bytes<T>(tiles) of global memory, aligned to 8 bytes, all 0 when the
// kernel starts. f is called with the earlier operand first; f(identity, x) and f(x, identity) are
// x.
#ifndef TENSORD_CUDA_SCAN_CUH_
#define TENSORD_CUDA_SCAN_CUH_

#include "tensord/cuda/group.cuh"

namespace tk {

struct ScanSum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return scalar::add(a, b);
  }
};

// --- in a thread

// Lane i: f of lanes 0 ... i.
template <class T, int W, class F>
TK_FN Vec<T, W> scan_lanes(Vec<T, W> v, F f) {
#pragma unroll
  for (int i = 1; i < W; ++i) v.at[i] = f(v.at[i - 1], v.at[i]);
  return v;
}
// The same with `before` in front of all.
template <class T, int W, class F>
TK_FN Vec<T, W> scan_after(T before, Vec<T, W> scanned, F f) {
  TK_EACH(i) scanned.at[i] = f(before, scanned.at[i]);
  return scanned;
}

// --- in a group

namespace impl {

// From the lane so many before this one, of this thread's group of N; without one, this lane's.
template <int N>
struct UpLane {
  int by;
  __device__ __forceinline__ uint32_t operator()(uint32_t x) const {
    return __shfl_up_sync(group_lanes<N>(), x, by, N);
  }
};

// Over N lanes that follow each other: f of those up to this one.
template <int N, class T, class F>
TK_FN T scan_warp(T x, F f) {
#pragma unroll
  for (int k = 1; k < N; k *= 2) {
    const T earlier = shuffle(x, UpLane<N>{k});
    if (lane() % N >= k) x = f(earlier, x);
  }
  return x;
}

// f over a warp in the order of its lanes; all get the same bits.
template <class T, class F>
TK_FN T reduce_warp_in_order(T x, F f) {
#pragma unroll
  for (int k = 1; k < 32; k *= 2) {
    const T other = shuffle(x, XorLane<32>{k});
    x = lane() & k ? f(other, x) : f(x, other);
  }
  return x;
}

// A function of vectors as one of numbers.
template <class F>
struct OfNumbers {
  F f;
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return f(Vec<T, 1>{{a}}, Vec<T, 1>{{b}}).at[0];
  }
};

}  // namespace impl

// The f of all threads of a group before this one (`identity` for the first), and of the whole
// group of G threads in `total`. Groups, and their memory, as in group.cuh: parts of a warp, or the
// whole block.
template <int G, class T, class F, class M>
TK_FN T scan_group(T x, F f, T identity, M&& memory, T& total) {
  constexpr int kLanes = G < 32 ? G : 32;
  const T upto = impl::scan_warp<kLanes>(x, f);
  const T up = impl::shuffle(upto, impl::UpLane<kLanes>{1});
  const int lane = impl::lane();
  const T before = lane % kLanes == 0 ? identity : up;
  if constexpr (G <= 32) {
    static_assert(G > 0 && (G & (G - 1)) == 0, "a part of a warp");
    total = impl::shuffle(upto, impl::FromLane<G>{(lane & -G) + G - 1});
    return before;
  } else {
    static_assert(G <= 1024 && G % 32 == 0, "a block of whole warps");
    constexpr int kWarps = G / 32;
    T* const slot = impl::slots<G, T>(memory);
    const int warp = int(threadIdx.x / 32);
    if (lane == 31) slot[warp] = upto;
    impl::meet<G>(memory);
    // Every warp scans all warps' totals.
    const T warps = impl::scan_warp<32>(lane < kWarps ? slot[lane] : identity, f);
    total = impl::shuffle(warps, impl::FromLane<32>{kWarps - 1});
    const T outside = impl::shuffle(warps, impl::FromLane<32>{(warp + 31) % 32});
    return warp == 0 ? before : f(outside, before);
  }
}

// The prefixes that end in the lanes of a group's vectors, thread behind thread; `before`, what
// stands before the group's first lane and which all its threads know, is moved behind its last
// one. f is a function of vectors.
template <int G, class T, int W, class F, class M>
TK_FN Vec<T, W> group_scan(Vec<T, 1>& before, Vec<T, W> v, F f, typename AsIs<T>::type identity,
                           M&& memory) {
  const impl::OfNumbers<F> combine{f};
  const Vec<T, W> inside = scan_lanes(v, combine);
  T total;
  const T threads = scan_group<G>(inside.at[W - 1], combine, T(identity), memory, total);
  const T front = combine(before.at[0], threads);
  before.at[0] = combine(before.at[0], total);
  return scan_after(front, inside, combine);
}

// --- over parts of a row, which blocks scan apart

// f of all lanes of a group's vectors, for all its threads.
template <int G, class T, int W, class F, class M>
TK_FN T group_total(Vec<T, W> v, F f, typename AsIs<T>::type identity, M&& memory) {
  const impl::OfNumbers<F> combine{f};
  T total;
  scan_group<G>(scan_lanes(v, combine).at[W - 1], combine, T(identity), memory, total);
  return total;
}
// f of totals[0 ... count-1], for all threads of a block of G; `identity` of none.
template <class T, int G, class F, class M>
TK_FN T group_before(const T* totals, int64_t count, F f, typename AsIs<T>::type identity,
                     M&& memory) {
  const impl::OfNumbers<F> combine{f};
  T mine = identity;
  for (int64_t i = threadIdx.x; i < count; i += G) mine = combine(mine, totals[i]);
  return group_total<G>(Vec<T, 1>{{mine}}, f, identity, memory);
}

// --- over a grid

namespace impl {

enum : int { kScanFan = 32 };

// A value that is published once. Four bytes go with their flag in one word; larger ones before it.
template <class T>
struct Published {
  unsigned long long word[sizeof(T) <= 4 ? 1 : 2];
};
template <class T>
TK_FN void publish(Published<T>* slot, T x) {
  if constexpr (sizeof(T) <= 4) {
    ptx::store_relaxed(slot->word, 1ull << 32 | __builtin_bit_cast(Bits<T>, x));
  } else {
    ptx::store_relaxed(slot->word, __builtin_bit_cast(unsigned long long, x));
    ptx::store_release(slot->word + 1, 1);
  }
}
template <class T>
TK_FN T await_published(const Published<T>* slot) {
  if constexpr (sizeof(T) <= 4) {
    unsigned long long x;
    do {
      x = ptx::load_relaxed(slot->word);
    } while (x >> 32 == 0);
    return __builtin_bit_cast(T, Bits<T>(x));
  } else {
    while (ptx::load_acquire(slot->word + 1) == 0) {
    }
    return __builtin_bit_cast(T, ptx::load_relaxed(slot->word));
  }
}

// f over values[0 ... count-1], count < 32, by one warp.
template <class T, class F>
TK_FN T gather_published(const Published<T>* values, int count, F f, T identity) {
  const T x = lane() < count ? await_published(values + lane()) : identity;
  __syncwarp();
  return reduce_warp_in_order(x, f);
}

// f of all tiles before this one, by one warp, which publishes for those after it.
template <class T, class F>
TK_FN T scan_tiles(T total, F f, T identity, void* scratch, int tiles, int tile) {
  Published<T>* const tile_totals =
      reinterpret_cast<Published<T>*>(static_cast<unsigned long long*>(scratch) + 1);
  Published<T>* const windows = tile_totals + tiles;
  Published<T>* const spans = windows + (tiles + kScanFan - 1) / kScanFan;
  const int window = tile / kScanFan, span = window / kScanFan;
  const int in_window = tile % kScanFan, in_span = window % kScanFan;
  const bool first_lane = lane() == 0;
  if (first_lane) publish(tile_totals + tile, total);
  const T near = gather_published(tile_totals + window * kScanFan, in_window, f, identity);
  const bool ends_window = in_window == kScanFan - 1;
  if (ends_window && first_lane) publish(windows + window, f(near, total));
  const T far = gather_published(windows + span * kScanFan, in_span, f, identity);
  T before = f(far, near);
  if (span > 0) before = f(await_published(spans + span - 1), before);
  if (ends_window && in_span == kScanFan - 1 && first_lane) publish(spans + span, f(before, total));
  return before;
}

}  // namespace impl

template <class T>
TK_FN constexpr int64_t scan_scratch_bytes(int64_t tiles) {
  constexpr int64_t kFan = impl::kScanFan;
  return 8 + int64_t(sizeof(impl::Published<T>)) *
                 (tiles + (tiles + kFan - 1) / kFan + (tiles + kFan * kFan - 1) / (kFan * kFan));
}

// The number of this block's next tile, in the order in which blocks ask. By all G threads.
template <int G, class M>
TK_FN int scan_tile(void* scratch, M&& memory) {
  int* const slot = impl::slots<G, int>(memory);
  if (threadIdx.x == 0) *slot = int(atomicAdd(static_cast<unsigned*>(scratch), 1u));
  __syncthreads();
  return *slot;
}

// The f of all threads before this one in all tiles up to this one. By all G threads, once per
// tile.
template <int G, class T, class F, class M>
TK_FN T scan_grid(T x, F f, T identity, void* scratch, int tiles, int tile, M&& memory) {
  T total;
  static_assert(G >= 32, "a block of whole warps");
  const T inside = scan_group<G>(x, f, identity, memory, total);
  T* const slot = impl::slots<G, T>(memory);
  if (threadIdx.x < 32) {
    const T before = impl::scan_tiles(total, f, identity, scratch, tiles, tile);
    if (impl::lane() == 0) *slot = before;
  }
  __syncthreads();
  return f(*slot, inside);
}

}  // namespace tk

#endif  // TENSORD_CUDA_SCAN_CUH_
