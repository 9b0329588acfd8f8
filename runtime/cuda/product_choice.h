// SPDX-License-Identifier: Apache-2.0
// Which of the algorithms that cuBLASLt offers for a product is taken.
#ifndef TENSORD_RUNTIME_CUDA_PRODUCT_CHOICE_H_
#define TENSORD_RUNTIME_CUDA_PRODUCT_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace tensord::runtime {

// What the library says of an algorithm, in its own numbers (cublasLtMatmulAlgoConfigAttributes_t).
struct OfferedAlgorithm {
  int32_t family = 0;  // of kernels: CUBLASLT_ALGO_CONFIG_ID
  int32_t tile = 0;    // of the result, that a block computes
  int32_t option = 0;  // CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION
  int32_t split = 1;   // parts of the depth, each with blocks of its own
  float waves = 0;     // tiles of the result for each multiprocessor
};

// Whether on devices of `sm` another one than the library's first choice may be taken.
bool MayChooseAnother(uint32_t sm);

// The number of the one to take for a product of that depth (k) on devices of `sm`. The first of
// `offered`, of which there is one at least, is what the library itself would take.
size_t ChooseAlgorithm(std::span<const OfferedAlgorithm> offered, int64_t depth, uint32_t sm);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_CUDA_PRODUCT_CHOICE_H_
