// SPDX-License-Identifier: Apache-2.0
// Every function of the CUDA prelude, a part at a time (-DPART, one of the functions below) and the
// widths of -DWIDTHS(F); with -DTYPE for that storage type, without it what is not made for every
// type. cuda_test.cc compiles it for each architecture; nobody runs it.
#include "tensord/cuda.cuh"
#include "tensord/cuda/lift_special.cuh"

// Stores a value of any type, at a place of its own.
template <class T, int W>
__device__ void keep(char*& out, tk::Vec<T, W> v) {
  tk::store<T, W>(reinterpret_cast<T*>(out), v);
  out += 64 * W;
}
template <class T>
__device__ void keep_one(char*& out, T x) {
  keep(out, tk::broadcast<1>(x));
}

#define OPERANDS(S, W)                                                                            \
  using namespace tk;                                                                             \
  using T = Compute<S>;                                                                           \
  const auto a = load<S, W>(p), b = load_const<S, W>(p + W), c = load_streaming<S, W>(p + 2 * W); \
  const Mask<W> m = load<bool, W>(reinterpret_cast<const bool*>(p));

template <class S, int W>
__device__ void memory(const S* p, char* out, int64_t stride) {
  OPERANDS(S, W)
  const auto index = load<int64_t, W>(reinterpret_cast<const int64_t*>(p));
  const auto index32 = load<int32_t, W>(reinterpret_cast<const int32_t*>(p));
  S* q = reinterpret_cast<S*>(out) + 4096;
  store<S, W>(q, load_masked<S, W>(p, m)), q += W;
  store<S, W>(q, load_evict_last<S, W>(p)), q += W;
  store_streaming<S, W>(q, strided<S, W>(p, stride)), q += W;
  store_masked<S, W>(q, strided_masked<S, W>(p, stride, m), m), q += W;
  store_strided<S, W>(q, stride, gather<S, W>(p, checked_index(index, stride)));
  store_strided_masked<S, W>(q, stride, gather_masked<S, W>(p, index32, m), m), q += W;
  store_masked<S, W>(q, gather<S, W>(p, wrapped_index(index, stride, m)), m), q += W;
  store_tail<S, W>(q, load_tail<S, W>(p, stride), stride), q += W;
  store<S, W>(q, load_unaligned<S, W>(p + stride)), q += W;
  store<S, W>(q, strided_tail<S, W>(p, stride, stride + 1)), q += W;
  if constexpr (2 * W * sizeof(S) <= 32) {
    store_pairs<S, W>(q, load_odd<S, W>(p), load_even<S, W>(p));
  }
}

template <class S, int W>
__device__ void scatters(const S* p, char* out, int64_t) {
  OPERANDS(S, W)
  const auto index = load<int64_t, W>(reinterpret_cast<const int64_t*>(p));
  const auto index32 = load<int32_t, W>(reinterpret_cast<const int32_t*>(p));
  S* q = reinterpret_cast<S*>(out) + 4096;
  scatter<S, W>(q, index, a);
  scatter_masked<S, W>(q, index32, b, m);
  scatter_add<S, W>(q, index, c, m), scatter_add_run<S, W>(q + W, c, m);
}

// The scalar operations of compiler/loop_ir/ops.def that take a type.
enum class Types { Float, Integer, Number, Bits, Any, Counter };
template <class T>
constexpr bool takes(Types types) {
  if (types == Types::Counter) return false;
  if (types == Types::Any) return true;
  if (tk::kIsFloat<T>) return types == Types::Float || types == Types::Number;
  return tk::kSame<T, bool> ? types == Types::Bits : types != Types::Float;
}
// f of the first kArity operands.
template <int kArity, class F, class V>
__device__ auto apply(F f, V a, V b, V c) {
  if constexpr (kArity == 1)
    return f(a);
  else if constexpr (kArity == 2)
    return f(a, b);
  else
    return f(a, b, c);
}
enum class Result { Same, Bool, Second, Float32 };
template <class S, int W>
__device__ void operations(const S* p, char* out, int64_t) {
  OPERANDS(S, W)
#define TENSORD_OP(name, arity, types, result, ...)                               \
  if constexpr (takes<T>(Types::types)) {                                         \
    if constexpr (arity == 3 && Result::result == Result::Second)                 \
      keep(out, tk::name(m, a, b));                                               \
    else                                                                          \
      keep(out, apply<arity>([](auto... v) { return tk::name(v...); }, a, b, c)); \
  }
#define TENSORD_SPECIAL_OP(...)
#include "compiler/loop_ir/ops.def"
}

// The special functions, which compute in double or in T.
template <class S, int W>
__device__ void special_functions(const S* p, char* out, int64_t) {
  OPERANDS(S, W)
#define TENSORD_OP(...)
#define TENSORD_SPECIAL_OP(name, arity, ...) \
  keep(out, apply<arity>([](auto... v) { return tk::name(v...); }, a, b, c));
#include "compiler/loop_ir/ops.def"
}

template <class S, int W>
__device__ void arithmetic(const S* p, char* out, int64_t stride) {
  OPERANDS(S, W)
  keep(out, round_to<S>(a)), keep(out, where_or_zero(m, a));
  keep(out, splat<W>(broadcast<1>(get(a, 0)))), keep(out, like(a, T(1)));
  keep(out, bitcast<Bits<T>>(a));
  keep(out, cast<float>(a)), keep(out, cast<double>(a)), keep(out, cast<bool>(a));
  keep(out, cast<int8_t>(a)), keep(out, cast<uint8_t>(a)), keep(out, cast<int16_t>(a));
  keep(out, cast<int32_t>(a)), keep(out, cast<int64_t>(a)), keep(out, cast<uint16_t>(a));
  keep(out, cast<uint32_t>(a)), keep(out, cast<uint64_t>(a)), keep(out, cast<half>(a));
  if constexpr (!kSame<T, bool>) {
    keep(out, -a), keep(out, a + b - c * a);
    if constexpr (kIsFloat<T>)
      keep(out, a / b);
    else
      keep(out, a << 1 | b >> 1), keep(out, iota<T, W>(T(stride)));
  }
  if constexpr (!kIsFloat<T>) keep(out, ~a & b);
}

template <class S, int W>
__device__ void reductions(const S* p, char* out, int64_t) {
  OPERANDS(S, W)
  keep_one(out, reduce_min(a)), keep_one(out, reduce_max(a));
  keep_one(out, reduce_sum(a)), keep_one(out, reduce_prod(a));
  if constexpr (!kIsFloat<T>) keep_one(out, reduce_xor(a));
  if constexpr (!kSame<T, bool>) {
    auto high = argmax_start<T, W>(), low = argmin_start<T, W>();
    high = argmax_combine(argmax_add(high, a, 3), argmax_add(high, b, 9));
    low = argmin_combine(argmin_add(low, a, 3), argmin_add(low, b, 9));
    keep(out, argmax_reduce(high).index), keep(out, argmin_reduce(low).index);
  }
  if constexpr (kIsFloat<T>) {
    auto moments = welford_start<T, W>();
    moments = welford_combine(welford_add(moments, a), welford_add_masked(moments, b, m));
    keep(out, welford_reduce(moments).m2);
  }
}

template <int W>
__device__ void softmax(const float* p, char* out, int64_t first) {
  using namespace tk;
  const auto a = load<float, W>(p), b = load<float, W>(p + W);
  const Mask<W> m = gt(a, b);
  auto s = softmax_start<float, W>();
  s = softmax_combine(softmax_add(s, a), softmax_add_masked(s, b, m));
  const auto total = softmax_reduce(s);
  keep(out, total.max), keep(out, total.sum);
  keep_one(out, reduce_any(m)), keep_one(out, reduce_all(m)), keep_one(out, int(mask_bits(m)));
  keep(out, mask_first<W>(first));
}

template <int W>
__device__ void random(const float*, char* out, int64_t seed) {
  using namespace tk;
  const auto element = iota<int64_t, W>(seed * 7);
  const auto seeds = broadcast<W>(seed), stream = broadcast<W>(seed + 1);
  keep(out, philox_uniform(seeds, stream, element));
  keep(out, philox_normal(seeds, stream, element));
  keep(out, philox_uniform_run<W>(broadcast<1>(seed), broadcast<1>(seed + 1), seed * W));
  keep(out, philox_normal_run<W>(broadcast<1>(seed), broadcast<1>(seed + 1), seed * W));
}

// Groups of threads; `shared` is of the block.
template <int G, class M>
__device__ void group(const float* p, char* out, M&& m) {
  using namespace tk;
  const auto x = load<float, 4>(p);
  const int i = int(p[5]);
  keep_one(out, group_add<G>(p[0], m)), keep_one(out, group_mul<G>(p[1], m));
  keep_one(out, group_min<G>(p[2], m)), keep_one(out, group_max<G>(p[3], m));
  keep_one(out, group_add<G>(double(p[4]), m)), keep_one(out, group_add<G>(i, m));
  keep_one(out, group_max<G>(int8_t(i), m)), keep_one(out, group_min<G>(int64_t(i), m));
  keep_one(out, group_any<G>(i > 3, m)), keep_one(out, group_all<G>(i > 3, m));
  const auto moments =
      group_welford<G>(welford_reduce(welford_add(welford_start<float, 4>(), x)), m);
  keep(out, moments.mean), keep(out, moments.m2);
  const auto wide =
      group_welford<G>(welford_reduce(welford_add(welford_start<double, 4>(), cast<double>(x))), m);
  keep(out, wide.mean), keep(out, wide.m2);
  const auto softmax =
      group_softmax<G>(softmax_reduce(softmax_add(softmax_start<float, 4>(), x)), m);
  keep(out, softmax.max), keep(out, softmax.sum);
  const auto high = argmax_reduce(argmax_add(argmax_start<float, 4>(), x, i));
  const auto low = argmin_reduce(argmin_add(argmin_start<float, 4>(), x, i));
  keep(out, group_argmax<G>(high, m).index), keep(out, group_argmin<G>(low, m).index);
}

template <class T>
__device__ void scan(const float* p, char* out, void* scratch, int tiles, void* shared) {
  using namespace tk;
  GroupMemory memory{shared};
  const int tile = scan_tile<256>(scratch, memory);
  const auto scanned = scan_lanes(cast<T>(load<float, 4>(p)), ScanSum());
  const T before = scan_grid<256>(get(scanned, 3), ScanSum(), T(0), scratch, tiles, tile, memory);
  keep(out, scan_after(before, scanned, ScanSum()));
}

template <class T, int G>
__device__ void scan_row(const float* p, char* out, int64_t vectors, tk::GroupMemory& memory) {
  using namespace tk;
  const auto sum = [](auto a, auto b) { return tk::add(a, b); };
  Vec<T, 1> before = {{T(0)}};
  for (int64_t first = 0; first < vectors; first += G) {
    const auto v = cast<T>(load<float, 4>(p + first * 4));
    keep(out, group_scan<G>(before, v, sum, T(0), memory));
    keep_one(out, group_total<G>(v, sum, T(0), memory));
  }
  if constexpr (G >= 32) {
    keep_one(out, group_before<T, G>(reinterpret_cast<const T*>(p), vectors, sum, T(0), memory));
  }
}

struct Args {
  void* b[2];
  int64_t n;
};
#define KERNEL(function, S, W, ...) KERNEL_OF(function, S, W, __VA_ARGS__)
#define KERNEL_OF(function, S, W, ...)                                                      \
  extern "C" __global__ void __launch_bounds__(128)                                         \
      function##_##W(const __grid_constant__ Args args) {                                   \
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;                               \
    function<__VA_ARGS__>(static_cast<const S*>(args.b[0]) + thread * 8 * W,                \
                          static_cast<char*>(args.b[1]) + int64_t(thread) * 65536, args.n); \
  }
#if defined(TYPE)
#define KERNELS(W) KERNEL(PART, TYPE, W, TYPE, W)
WIDTHS(KERNELS)
#elif defined(GROUPS)
#define GROUP(G)                                                                   \
  extern "C" __global__ void __launch_bounds__(G < 32 ? 32 : G)                    \
      group_##G(const __grid_constant__ Args args) {                               \
    __shared__ alignas(16) char shared[tk::kGroupSharedBytes];                     \
    const float* const p = static_cast<const float*>(args.b[0]) + threadIdx.x * 8; \
    char* const out = static_cast<char*>(args.b[1]) + threadIdx.x * 65536;         \
    if (args.n > 0) {                                                              \
      group<G>(p, out, shared);                                                    \
    } else {                                                                       \
      tk::GroupMemory memory{shared};                                              \
      group<G>(p, out, memory);                                                    \
    }                                                                              \
  }
GROUP(1)
GROUP(2)
GROUP(4) GROUP(8) GROUP(16) GROUP(32) GROUP(64) GROUP(96) GROUP(256) GROUP(1024)
#elif defined(SCANS)
#define SCAN(T)                                                                                    \
  extern "C" __global__ void __launch_bounds__(256) scan_##T(const __grid_constant__ Args args) {  \
    __shared__ alignas(16) char shared[tk::kGroupSharedBytes];                                     \
    scan<T>(static_cast<const float*>(args.b[0]) + threadIdx.x * 4, static_cast<char*>(args.b[1]), \
            args.b[1], int(args.n), shared);                                                       \
  }
#define SCAN_ROWS(T, G)                                                               \
  extern "C" __global__ void __launch_bounds__(256)                                   \
      row_##T##_##G(const __grid_constant__ Args args) {                              \
    __shared__ alignas(16) char shared[tk::kGroupSharedBytes];                        \
    tk::GroupMemory memory{shared};                                                   \
    scan_row<T, G>(static_cast<const float*>(args.b[0]) + threadIdx.x * 4,            \
                   static_cast<char*>(args.b[1]) + threadIdx.x * 64, args.n, memory); \
  }
// clang-format off
SCAN(float) SCAN(double) SCAN(int32_t) SCAN(int64_t)
SCAN_ROWS(float, 8) SCAN_ROWS(float, 32) SCAN_ROWS(double, 256) SCAN_ROWS(int32_t, 256)
SCAN_ROWS(int64_t, 32)
// clang-format on
#else
#define KERNELS(W) KERNEL(PART, float, W, W)
WIDTHS(KERNELS)
#endif
