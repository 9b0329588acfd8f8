// SPDX-License-Identifier: Apache-2.0
// In place of warpgroup.cuh portable code, for blocks that run on the host (cuda_on_host.h), and
// what is built on it. A copy happens when its thread waits for it, as late as it may; products
// happen at once, of what then is in shared memory.
//
// To be included after all other headers.
#ifndef TENSORD_TESTS_UNIT_TESTING_WARPGROUP_ON_HOST_H_
#define TENSORD_TESTS_UNIT_TESTING_WARPGROUP_ON_HOST_H_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "tests/unit/testing/cuda_on_host.h"

namespace cuda_on_host {

// What a block's threads share, at addresses from kFirst on: as on the device no multiple of 1024.
// Until something is written there, all of it is NaN.
class SharedMemory {
 public:
  SharedMemory(int threads, int bytes) : bytes_(bytes, char(0xff)), copies_(threads) {}

  char* bytes() { return bytes_.data(); }
  uint32_t AddressOf(const void* p) const {
    return uint32_t(static_cast<const char*>(p) - bytes_.data()) + kFirst;
  }
  uint16_t Read(uint32_t address) {
    uint16_t x;
    std::memcpy(&x, At(address, sizeof(x)), sizeof(x));
    return x;
  }

  // 16 bytes, zeros without `from`.
  void Copy(uint32_t to, const void* from) { mine().open.push_back({to, from}); }
  void Commit() { mine().committed.push_back(std::exchange(mine().open, {})); }
  // The thread's groups but for the last `left` ones.
  void Wait(size_t left) {
    std::deque<Group>& groups = mine().committed;
    for (; groups.size() > left; groups.pop_front()) {
      for (const OneCopy& copy : groups.front()) Do(copy);
    }
  }

 private:
  struct OneCopy {
    uint32_t to;
    const void* from;
  };
  typedef std::vector<OneCopy> Group;
  struct Copies {
    Group open;
    std::deque<Group> committed;
  };
  enum : uint32_t { kFirst = 16, kCopyBytes = 16 };

  Copies& mine() { return copies_[threadIdx.x]; }
  char* At(uint32_t address, uint32_t size) {
    if (address % size != 0 || address < kFirst || address - kFirst + size > bytes_.size()) {
      std::fprintf(stderr, "no %u bytes at address %u of shared memory\n", size, address);
      std::abort();
    }
    return bytes_.data() + (address - kFirst);
  }
  void Do(const OneCopy& copy) {
    char* const to = At(copy.to, kCopyBytes);
    if (copy.from == nullptr) {
      std::memset(to, 0, kCopyBytes);
    } else {
      std::memcpy(to, copy.from, kCopyBytes);
    }
  }

  std::vector<char> bytes_;
  std::vector<Copies> copies_;
};
inline thread_local SharedMemory* shared_memory = nullptr;

// Runs f, which gets so many bytes of shared memory, in `threads` threads, a multiple of 128.
inline void RunWarpgroups(int threads, int bytes, const std::function<void(char*)>& f) {
  SharedMemory memory(threads, bytes);
  shared_memory = &memory;
  RunBlock(threads, [&] { f(memory.bytes()); });
  shared_memory = nullptr;
}

template <class S>
float ValueOf(uint16_t bits) {
  if constexpr (tk::kSame<S, tk::bfloat16>) {
    return std::bit_cast<float>(uint32_t(bits) << 16);
  } else {
    if ((bits & 0x7c00) == 0x7c00) return tk::ptx::half_to_float(bits);
    const float size = std::bit_cast<float>(uint32_t(bits & 0x7fff) << 13) * 0x1p112f;
    return bits >> 15 != 0 ? -size : size;
  }
}

// The element that lies at `address` but for the swaps of chunks.
template <class S>
float ElementAt(uint32_t address) {
  return ValueOf<S>(shared_memory->Read(address ^ (address >> 7 & 7) << 4));
}

// A product's k: of 16 rows or columns at a time.
enum : int { kProductDepth = 16 };

// A thread's two rows of the first factor of a product.
struct FactorRows {
  float at[2][kProductDepth];
};

// Adds to the thread's sums of N columns. b(k, column) is the second factor.
template <int N, class B>
void AddProducts(float* d, const FactorRows& a, const B& b) {
  for (int i = 0; i < N / 2; i += 4) {
    for (int c = 0; c < 2; ++c) {
      const int column = 2 * i + int(threadIdx.x % 4) * 2 + c;
      for (int k = 0; k < kProductDepth; ++k) {
        const float y = b(k, column);
        d[i + c] += a.at[0][k] * y;
        d[i + 2 + c] += a.at[1][k] * y;
      }
    }
  }
}

// From shared memory: those of this thread's sums, the first at `address` of the matrix.
template <class S>
FactorRows FactorAt(uint32_t address) {
  const int thread = int(threadIdx.x % 128), row = thread / 32 * 16 + thread % 32 / 4;
  FactorRows a;
  for (int r = 0; r < 2; ++r) {
    for (int k = 0; k < kProductDepth; ++k) {
      a.at[r][k] = ElementAt<S>(address + uint32_t((row + 8 * r) * 128 + k * 2));
    }
  }
  return a;
}

// From the registers of four lanes, each of which has two neighbours of eight in a word: words 0
// and 2 are of the first row, 1 and 3 of the second one.
template <class S>
FactorRows FactorOf(const uint32_t* x) {
  const int first = int(threadIdx.x % 32) & ~3;
  FactorRows a;
  for (int i = 0; i < 4; ++i) {
    Exchange(0xfu << first, x[i], [&](const uint32_t* words) {
      for (int k = 0; k < 8; ++k) {
        a.at[i % 2][i / 2 * 8 + k] = ValueOf<S>(uint16_t(words[first + k / 2] >> k % 2 * 16));
      }
      return 0u;
    });
  }
  return a;
}

}  // namespace cuda_on_host

// --- warpgroup.cuh

#define TENSORD_CUDA_WARPGROUP_CUH_

namespace tk::ptx {

inline uint32_t shared_address(const void* p) { return cuda_on_host::shared_memory->AddressOf(p); }

inline void copy_async(uint32_t to, const void* from, bool reads) {
  cuda_on_host::shared_memory->Copy(to, reads ? from : nullptr);
}
inline void commit_copies() { cuda_on_host::shared_memory->Commit(); }
template <int N>
void wait_for_copies() {
  cuda_on_host::shared_memory->Wait(N);
}
inline void show_to_products() {}

inline void begin_products() {}
inline void commit_products() {}
template <int N>
void wait_for_products() {}

inline uint64_t matrix_at(uint32_t address, int panel = 16) {
  return uint64_t(panel) << 32 | address;
}

template <class S, int N>
struct Products {
  static_assert(kSame<S, half> || kSame<S, bfloat16>);
  static_assert(N == 64 || N == 128);
  static void shared(float* d, uint64_t x, uint64_t y, bool adds) {
    if (!adds) std::fill_n(d, N / 2, 0.0f);
    cuda_on_host::AddProducts<N>(d, cuda_on_host::FactorAt<S>(uint32_t(x)), [y](int k, int column) {
      return cuda_on_host::ElementAt<S>(uint32_t(y) + uint32_t(column * 128 + k * 2));
    });
  }
  static void registers(float* d, const uint32_t* x, uint64_t y) {
    const int panel = int(y >> 32);
    cuda_on_host::AddProducts<N>(d, cuda_on_host::FactorOf<S>(x), [y, panel](int k, int column) {
      const int place = column / 64 * panel + k * 128 + column % 64 * 2;
      return cuda_on_host::ElementAt<S>(uint32_t(y) + uint32_t(place));
    });
  }
};

}  // namespace tk::ptx

#include "tensord/cuda/attention.cuh"

#endif  // TENSORD_TESTS_UNIT_TESTING_WARPGROUP_ON_HOST_H_
