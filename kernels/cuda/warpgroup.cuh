// SPDX-License-Identifier: Apache-2.0
// Matrix products of warpgroups (compute capability 9.0), and copies into shared memory that run
// in the background: what PTX alone can say of them. The tests replace this file by portable code
// (tests/unit/testing/warpgroup_on_host.h).
//
// A warpgroup is four warps that follow each other, the first a multiple of four. Thread t of it
// has of a product of 64 rows and N columns N / 2 sums: d[4 * n + 2 * r + c] is that of row
// 16 * (t / 32) + t % 32 / 4 + 8 * r and column 8 * n + 2 * (t % 4) + c.
//
// A matrix in shared memory lies in panels of 64 columns (128 bytes), one behind the other, which
// start at multiples of 1024 bytes; the eight chunks of 16 bytes of row r are swapped by r % 8.
#ifndef TENSORD_CUDA_WARPGROUP_CUH_
#define TENSORD_CUDA_WARPGROUP_CUH_

#include "tensord/cuda/types.cuh"

namespace tk::ptx {

TK_FN uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

// --- copies

// 16 bytes, or zeros where nothing is to be read.
TK_FN void copy_async(uint32_t to, const void* from, bool reads) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(reads ? 16 : 0)
               : "memory");
}
TK_FN void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until no more than N of this thread's groups are under way.
template <int N>
TK_FN void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
// What this thread has written to shared memory is seen by products that are issued behind the
// next barrier.
TK_FN void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- products

#if __CUDA_ARCH__ >= 900
// Ahead of the first product that reads or writes registers which other instructions have written.
TK_FN void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TK_FN void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
TK_FN void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Of a matrix whose rows are summed over: 16 columns of `rows` rows, from the row and column that
// lie at `address`. Of one whose columns are: 16 rows, from panel to panel `panel` bytes.
TK_FN uint64_t matrix_at(uint32_t address, int panel = 16) {
  return uint64_t((address & 0x3ffff) >> 4) | uint64_t((panel & 0x3ffff) >> 4) << 16 |
         uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

#define TK_SUMS8(d, i)                                                                        \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define TK_SUMS32(d, i) TK_SUMS8(d, i), TK_SUMS8(d, i + 8), TK_SUMS8(d, i + 16), TK_SUMS8(d, i + 24)
#define TK_NAMES32                                                                             \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TK_NAMES64                                                                               \
  TK_NAMES32                                                                                     \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// The products of one type and width. `shared`: of rows of a and rows of b, both summed over; the
// first of a chain forgets what the sums were. `registers`: of a's rows, of which the thread has
// what follows of its sums of one more 16 columns, and b's columns; adds to the sums.
template <class S, int N>
struct Products;
#define TK_PRODUCTS(type, name, columns, names, sums, a, b, scale, a0, a1, a2, a3, b2)     \
  template <>                                                                              \
  struct Products<type, columns> {                                                         \
    static TK_FN void shared(float* d, uint64_t x, uint64_t y, bool adds) {                \
      asm volatile("{.reg .pred p; setp.ne.b32 p, " scale                                  \
                   ", 0;\n"                                                                \
                   "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name   \
                   " {" names "}, " a ", " b ", p, 1, 1, 0, 0;}"                           \
                   : sums                                                                  \
                   : "l"(x), "l"(y), "r"(int(adds)));                                      \
    }                                                                                      \
    static TK_FN void registers(float* d, const uint32_t* x, uint64_t y) {                 \
      asm volatile(                                                                        \
          "{.reg .pred p; setp.eq.b32 p, 0, 0;\n"                                          \
          "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name " {" names \
          "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b2 ", p, 1, 1, 1;}"                      \
          : sums                                                                           \
          : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y));                           \
    }                                                                                      \
  };
#define TK_PRODUCTS_64(type, name)                                                            \
  TK_PRODUCTS(type, name, 64, TK_NAMES32, TK_SUMS32(d, 0), "%32", "%33", "%34", "%32", "%33", \
              "%34", "%35", "%36")
#define TK_SUMS64(d) TK_SUMS32(d, 0), TK_SUMS32(d, 32)
#define TK_PRODUCTS_128(type, name)                                                                \
  TK_PRODUCTS(type, name, 128, TK_NAMES64, TK_SUMS64(d), "%64", "%65", "%66", "%64", "%65", "%66", \
              "%67", "%68")
TK_PRODUCTS_64(half, "f16")
TK_PRODUCTS_64(bfloat16, "bf16")
TK_PRODUCTS_128(half, "f16")
TK_PRODUCTS_128(bfloat16, "bf16")
#undef TK_PRODUCTS_128
#undef TK_SUMS64
#undef TK_PRODUCTS_64
#undef TK_PRODUCTS
#undef TK_NAMES64
#undef TK_NAMES32
#undef TK_SUMS32
#undef TK_SUMS8
#endif

}  // namespace tk::ptx

#endif  // TENSORD_CUDA_WARPGROUP_CUH_
