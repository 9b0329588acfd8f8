// SPDX-License-Identifier: Apache-2.0
// Loads and stores of storage types S as vectors of Compute<S>.
//
// load and store move W elements at once, by 16 bytes where there are as many: their address is a
// multiple of min(16, W*sizeof(S)) bytes. The others go element by element and need no alignment. A
// masked access touches no memory where a lane is off; a load gives 0 there.
#ifndef TENSORD_CUDA_MEMORY_CUH_
#define TENSORD_CUDA_MEMORY_CUH_

#include "tensord/cuda/convert.cuh"

namespace tk {

namespace impl {

enum class Cache {
  kUsual,
  kStreaming,  // first to be evicted: what is touched once
  kConst,      // through the read-only path: what no thread writes while the kernel runs
  kLast,       // last to be evicted; vectors only
};

template <Cache C, class U>
TK_FN U read(const U* p) {
  if constexpr (C == Cache::kStreaming)
    return __ldcs(p);
  else if constexpr (C == Cache::kLast && sizeof(U) == 16)
    return ptx::load_evict_last(p);
  else if constexpr (C == Cache::kConst)
    return __ldg(p);
  else
    return *p;
}
template <Cache C, class U>
TK_FN void write(U* p, U x) {
  if constexpr (C == Cache::kStreaming)
    __stcs(p, x);
  else
    *p = x;
}

template <Cache C, class S, int W>
TK_FN Packed<S, W> read_packed(const S* p) {
  typedef Packed<S, W> P;
  P r;
  if constexpr (P::kBytes >= 16) {
#pragma unroll
    for (int i = 0; i < P::kBytes / 16; ++i) {
      if constexpr (sizeof(S) == 8) {
        const ulonglong2 x = read<C>(reinterpret_cast<const ulonglong2*>(p) + i);
        r.word[2 * i] = x.x, r.word[2 * i + 1] = x.y;
      } else {
        const uint4 x = read<C>(reinterpret_cast<const uint4*>(p) + i);
        r.word[4 * i] = x.x, r.word[4 * i + 1] = x.y;
        r.word[4 * i + 2] = x.z, r.word[4 * i + 3] = x.w;
      }
    }
  } else if constexpr (sizeof(S) == 8) {
    r.word[0] = read<C>(reinterpret_cast<const unsigned long long*>(p));
  } else if constexpr (P::kBytes == 8) {
    const uint2 x = read<C>(reinterpret_cast<const uint2*>(p));
    r.word[0] = x.x, r.word[1] = x.y;
  } else {
    r.word[0] = read<C>(reinterpret_cast<const typename UIntOf<P::kBytes>::type*>(p));
  }
  return r;
}
template <Cache C, class S, int W>
TK_FN void write_packed(S* p, Packed<S, W> v) {
  typedef Packed<S, W> P;
  if constexpr (P::kBytes >= 16) {
#pragma unroll
    for (int i = 0; i < P::kBytes / 16; ++i) {
      if constexpr (sizeof(S) == 8) {
        write<C>(reinterpret_cast<ulonglong2*>(p) + i,
                 ulonglong2{v.word[2 * i], v.word[2 * i + 1]});
      } else {
        write<C>(reinterpret_cast<uint4*>(p) + i,
                 uint4{v.word[4 * i], v.word[4 * i + 1], v.word[4 * i + 2], v.word[4 * i + 3]});
      }
    }
  } else if constexpr (sizeof(S) == 8) {
    write<C>(reinterpret_cast<unsigned long long*>(p), v.word[0]);
  } else if constexpr (P::kBytes == 8) {
    write<C>(reinterpret_cast<uint2*>(p), uint2{v.word[0], v.word[1]});
  } else {
    typedef typename UIntOf<P::kBytes>::type U;
    write<C>(reinterpret_cast<U*>(p), U(v.word[0]));
  }
}

}  // namespace impl

// --- loads

// p[0], ..., p[W-1].
template <class S, int W>
TK_FN Vec<Compute<S>, W> load(const S* p) {
  return unpack<S, W>(impl::read_packed<impl::Cache::kUsual, S, W>(p));
}
// The same, as they lie in memory: for tk::unpack.
template <class S, int W>
TK_FN Packed<S, W> load_packed(const S* p) {
  return impl::read_packed<impl::Cache::kUsual, S, W>(p);
}
// The caches evict this last. Global memory only, which the kernel does not write.
template <class S, int W>
TK_FN Vec<Compute<S>, W> load_evict_last(const S* p) {
  return unpack<S, W>(impl::read_packed<impl::Cache::kLast, S, W>(p));
}
template <class S, int W>
TK_FN Packed<S, W> load_evict_last_packed(const S* p) {
  return impl::read_packed<impl::Cache::kLast, S, W>(p);
}
// Global memory only, as load_const.
template <class S, int W>
TK_FN Vec<Compute<S>, W> load_streaming(const S* p) {
  return unpack<S, W>(impl::read_packed<impl::Cache::kStreaming, S, W>(p));
}
template <class S, int W>
TK_FN Vec<Compute<S>, W> load_const(const S* p) {
  return unpack<S, W>(impl::read_packed<impl::Cache::kConst, S, W>(p));
}
// The element as a scalar of the compute type.
template <class S>
TK_FN Compute<S> load_scalar(const S* p) {
  return load<S, 1>(p).at[0];
}
// p[i] where lane i is on; one access when all are. Only the access depends on that, not what is
// made of it: conversions under a condition would wait for their load before the next one is
// issued.
template <class S, int W>
TK_FN Vec<Compute<S>, W> load_masked(const S* p, Mask<W> on) {
  const bool all = mask_all(on);
  Packed<S, W> packed = {};
  if (all) packed = impl::read_packed<impl::Cache::kUsual, S, W>(p);
  Vec<Compute<S>, W> r = unpack<S, W>(packed);
  if (!all) TK_EACH(i) if (on.at[i]) r.at[i] = load_scalar(p + i);
  return r;
}
// The first `left` elements.
template <class S, int W, class I>
TK_FN Vec<Compute<S>, W> load_tail(const S* p, I left) {
  Vec<Compute<S>, W> r;
  TK_EACH(i) r.at[i] = i < left ? load_scalar(p + i) : Compute<S>(0);
  return r;
}
// p[0], p[stride], ...; stride in elements.
template <class S, int W, class I>
TK_FN Vec<Compute<S>, W> strided(const S* p, I stride) {
  Vec<Compute<S>, W> r;
  TK_EACH(i) r.at[i] = load_scalar(p + i * stride);
  return r;
}
// p[0], p[2], ... and p[1], p[3], ... of the 2*W neighbours from p on, which is aligned as for a
// load of so many. Whoever wants both reads them once.
template <class S, int W>
TK_FN Vec<Compute<S>, W> load_even(const S* p) {
  const Vec<Compute<S>, 2 * W> both = load<S, 2 * W>(p);
  Vec<Compute<S>, W> r;
  TK_EACH(i) r.at[i] = both.at[2 * i];
  return r;
}
template <class S, int W>
TK_FN Vec<Compute<S>, W> load_odd(const S* p) {
  const Vec<Compute<S>, 2 * W> both = load<S, 2 * W>(p);
  Vec<Compute<S>, W> r;
  TK_EACH(i) r.at[i] = both.at[2 * i + 1];
  return r;
}
// p[0], ..., p[W-1], wherever they lie: the aligned words around them, moved into place. Reads up
// to W-1 elements behind them, and before them to a multiple of 16 bytes.
template <class S, int W>
TK_FN Vec<Compute<S>, W> load_unaligned(const S* p) {
  typedef Packed<S, W> P;
  if constexpr (sizeof(S) == 8 || P::kBytes < 8) {
    return strided<S, W>(p, 1);
  } else {
    constexpr int kGranule = P::kBytes < 16 ? P::kBytes : 16, kWords = P::kBytes / 4;
    constexpr int kGranuleWords = kGranule / 4;
    const unsigned shift = reinterpret_cast<unsigned long long>(p) % kGranule;
    // Not by way of an integer: the compiler would no longer know that this is global memory.
    const uint32_t* const base =
        reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(p) - shift);
    // For an aligned vector the last granule is read twice. A condition would be cheaper in bytes,
    // but later loads would wait for it.
    const int last = shift != 0 ? kWords : kWords - kGranuleWords;
    uint32_t word[kWords + kGranuleWords];
#pragma unroll
    for (int i = 0; i < kWords + kGranuleWords; i += kGranuleWords) {
      const auto in = impl::read_packed<impl::Cache::kUsual, uint32_t, kGranuleWords>(
          base + (i < kWords ? i : last));
#pragma unroll
      for (int j = 0; j < kGranuleWords; ++j) word[i + j] = in.word[j];
    }
#pragma unroll
    for (int step = kGranuleWords / 2; step > 0; step /= 2) {
      const bool moves = (shift & (4 * step)) != 0;
#pragma unroll
      for (int i = 0; i + step < kWords + kGranuleWords; ++i) {
        word[i] = moves ? word[i + step] : word[i];
      }
    }
    P r;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const unsigned long long both = static_cast<unsigned long long>(word[i + 1]) << 32 | word[i];
      r.word[i] = static_cast<uint32_t>(both >> 8 * (shift % 4));
    }
    return unpack<S, W>(r);
  }
}
template <class S, int W, class I>
TK_FN Vec<Compute<S>, W> strided_masked(const S* p, I stride, Mask<W> on) {
  Vec<Compute<S>, W> r;
  TK_EACH(i) r.at[i] = on.at[i] ? load_scalar(p + i * stride) : Compute<S>(0);
  return r;
}
// p[0], p[stride], ... of the first `left` lanes.
template <class S, int W, class I, class L>
TK_FN Vec<Compute<S>, W> strided_tail(const S* p, I stride, L left) {
  Vec<Compute<S>, W> r;
  TK_EACH(i) r.at[i] = i < left ? load_scalar(p + i * stride) : Compute<S>(0);
  return r;
}
// base[index[i]].
template <class S, int W, class I>
TK_FN Vec<Compute<S>, W> gather(const S* base, Vec<I, W> index) {
  Vec<Compute<S>, W> r;
  TK_EACH(i) r.at[i] = load_scalar(base + index.at[i]);
  return r;
}
template <class S, int W, class I>
TK_FN Vec<Compute<S>, W> gather_masked(const S* base, Vec<I, W> index, Mask<W> on) {
  Vec<Compute<S>, W> r;
  TK_EACH(i) r.at[i] = on.at[i] ? load_scalar(base + index.at[i]) : Compute<S>(0);
  return r;
}

// --- stores

template <class S, int W>
TK_FN void store(S* p, Vec<Compute<S>, W> v) {
  impl::write_packed<impl::Cache::kUsual, S, W>(p, pack<S, W>(v));
}
// Global memory only.
template <class S, int W>
TK_FN void store_streaming(S* p, Vec<Compute<S>, W> v) {
  impl::write_packed<impl::Cache::kStreaming, S, W>(p, pack<S, W>(v));
}
template <class S>
TK_FN void store_scalar(S* p, Compute<S> x) {
  store<S, 1>(p, Vec<Compute<S>, 1>{{x}});
}
template <class S, int W>
TK_FN void store_masked(S* p, Vec<Compute<S>, W> v, Mask<W> on) {
  if (mask_all(on)) return store<S, W>(p, v);
  TK_EACH(i) if (on.at[i]) store_scalar(p + i, v.at[i]);
}
// The first `left` elements.
template <class S, int W, class I>
TK_FN void store_tail(S* p, Vec<Compute<S>, W> v, I left) {
  store_masked<S, W>(p, v, mask_first<W>(left));
}
template <class S, int W, class I>
TK_FN void store_strided(S* p, I stride, Vec<Compute<S>, W> v) {
  TK_EACH(i) store_scalar(p + i * stride, v.at[i]);
}
template <class S, int W, class I>
TK_FN void store_strided_masked(S* p, I stride, Vec<Compute<S>, W> v, Mask<W> on) {
  TK_EACH(i) if (on.at[i]) store_scalar(p + i * stride, v.at[i]);
}
// p[0] = even[0], p[1] = odd[0], p[2] = even[1], ...; p is aligned as for a store of 2*W elements.
template <class S, int W>
TK_FN void store_pairs(S* p, Vec<Compute<S>, W> even, Vec<Compute<S>, W> odd) {
  Vec<Compute<S>, 2 * W> both;
  TK_EACH(i) both.at[2 * i] = even.at[i], both.at[2 * i + 1] = odd.at[i];
  store<S, 2 * W>(p, both);
}
// base[index[i]] = v[i], in lane order: the last of equal indices in one thread stays.
template <class S, int W, class I>
TK_FN void scatter(S* base, Vec<I, W> index, Vec<Compute<S>, W> v) {
  TK_EACH(i) store_scalar(base + index.at[i], v.at[i]);
}
template <class S, int W, class I>
TK_FN void scatter_masked(S* base, Vec<I, W> index, Vec<Compute<S>, W> v, Mask<W> on) {
  TK_EACH(i) if (on.at[i]) store_scalar(base + index.at[i], v.at[i]);
}

}  // namespace tk

#endif  // TENSORD_CUDA_MEMORY_CUH_
