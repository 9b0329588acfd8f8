// SPDX-License-Identifier: Apache-2.0
// Random numbers for graphs that run without generated code: the same numbers as the kernels make.
#include "base/philox.h"

#include <cmath>
#include <cstdint>

#include "tensord/runtime.h"

using tensord::PhiloxBlock;
using tensord::PhiloxUnit;
using tensord::PhiloxWords;

extern "C" {

__attribute__((visibility("default"))) void tensord_philox_uniform(uint64_t seed, uint32_t stream,
                                                                   size_t count, float* out) {
  for (size_t i = 0; i < count; i += 4) {
    const PhiloxWords words = PhiloxBlock(seed, stream, i / 4);
    for (size_t k = 0; k < 4 && i + k < count; ++k) out[i + k] = PhiloxUnit(words[k]);
  }
}

__attribute__((visibility("default"))) void tensord_philox_normal(uint64_t seed, uint32_t stream,
                                                                  size_t count, float* out) {
  for (size_t i = 0; i < count; i += 2) {
    const PhiloxWords words = PhiloxBlock(seed, stream, i / 2);
    for (size_t k = 0; k < 2 && i + k < count; ++k) {
      out[i + k] = std::sqrt(-2.0f * std::log1p(-PhiloxUnit(words[2 * k]))) *
                   std::cos(6.28318531f * PhiloxUnit(words[2 * k + 1]));
    }
  }
}

}  // extern "C"
