// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10, a counter-based generator of random numbers (Salmon, Moraes, Dror, Shaw, "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011), one block at a time: for what runs without
// generated code. The preludes' vector forms give the same words.
#ifndef TENSORD_BASE_PHILOX_H_
#define TENSORD_BASE_PHILOX_H_

#include <array>
#include <cstdint>

namespace tensord {

using PhiloxWords = std::array<uint32_t, 4>;

inline PhiloxWords Philox(PhiloxWords counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t{counter[0]} * 0xD2511F53u, q = uint64_t{counter[2]} * 0xCD9E8D57u;
    counter = {static_cast<uint32_t>(q >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(q),
               static_cast<uint32_t>(p >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Block `number` of one random operator (`stream`) of a graph.
inline PhiloxWords PhiloxBlock(uint64_t seed, uint32_t stream, uint64_t number) {
  return Philox({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), stream, 0},
                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// The top 24 bits, in [0, 1): every value is exact.
inline float PhiloxUnit(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

}  // namespace tensord

#endif  // TENSORD_BASE_PHILOX_H_
