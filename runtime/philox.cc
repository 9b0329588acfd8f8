// Random numbers for graphs that run without generated code: the same numbers as the kernels make.
#include <cmath>
#include <cstdint>

#include "tensord/runtime.h"

namespace {

struct Words {
  uint32_t at[4];
};

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
Words Philox(uint64_t seed, uint32_t stream, uint64_t block) {
  uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32), c2 = stream,
           c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{c0} * 0xD2511F53u, p1 = uint64_t{c2} * 0xCD9E8D57u;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// The top 24 bits, in [0, 1).
float Unit(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void tensord_philox_uniform(uint64_t seed, uint32_t stream,
                                                                   size_t count, float* out) {
  for (size_t i = 0; i < count; i += 4) {
    const Words words = Philox(seed, stream, i / 4);
    for (size_t k = 0; k < 4 && i + k < count; ++k) out[i + k] = Unit(words.at[k]);
  }
}

__attribute__((visibility("default"))) void tensord_philox_normal(uint64_t seed, uint32_t stream,
                                                                  size_t count, float* out) {
  for (size_t i = 0; i < count; i += 2) {
    const Words words = Philox(seed, stream, i / 2);
    for (size_t k = 0; k < 2 && i + k < count; ++k) {
      out[i + k] = std::sqrt(-2.0f * std::log1p(-Unit(words.at[2 * k]))) *
                   std::cos(6.28318531f * Unit(words.at[2 * k + 1]));
    }
  }
}

}  // extern "C"
