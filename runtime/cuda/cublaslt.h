// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, found in the process: torch with CUDA has loaded it.
//
// torch's own way to a matrix product makes checks, descriptors and a search for the kernel at
// every call. Here they are made once. The few types and numbers are those of cublasLt.h (12 and
// 13) under names of ours.
#ifndef TENSORD_RUNTIME_CUDA_CUBLASLT_H_
#define TENSORD_RUNTIME_CUDA_CUBLASLT_H_

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/cuda_driver.h"

namespace tensord::runtime {

using LtStatus = int;  // 0 is success
using LtHandle = struct LtHandleOpaque*;
using LtOperation = struct LtOperationOpaque*;
using LtLayout = struct LtLayoutOpaque*;
using LtPreference = struct LtPreferenceOpaque*;

struct LtAlgorithm {
  uint64_t data[8];
};
struct LtHeuristic {
  LtAlgorithm algorithm;
  size_t workspace_bytes;
  LtStatus state;
  float waves;
  int reserved[4];
};

inline constexpr int kLtFloat32 = 0, kLtFloat16 = 2, kLtBfloat16 = 14;  // cudaDataType
inline constexpr int kLtCompute32 = 68;                                 // CUBLAS_COMPUTE_32F
// Attributes: of an operation, of a layout, of a preference.
inline constexpr int kLtTransposeA = 3, kLtTransposeB = 4, kLtEpilogue = 7, kLtBiasPointer = 8;
inline constexpr int kLtBatchCount = 5, kLtBatchStride = 6;
inline constexpr int kLtMaxWorkspace = 1, kLtReductions = 3, kLtAlignmentA = 5, kLtAlignmentD = 8;
inline constexpr uint32_t kLtNoEpilogue = 1, kLtBias = 4, kLtReluBias = 6, kLtGeluBias = 36;
inline constexpr uint32_t kLtReduceInComputeType = 2;
// Attributes of an algorithm, and tiles: what a block computes (cublasLtMatmulTile_t).
inline constexpr int kLtFamily = 0, kLtTile = 1, kLtSplit = 2, kLtOption = 5;
inline constexpr int kLtTile128x128 = 20, kLtTile128x160 = 29, kLtTile168x128 = 197,
                     kLtTile176x128 = 201, kLtTile192x96 = 458;

struct CublasLt {
  size_t (*get_version)();
  LtStatus (*create)(LtHandle*);
  LtStatus (*create_operation)(LtOperation*, int compute, int scale);
  LtStatus (*set_operation)(LtOperation, int attribute, const void*, size_t);
  LtStatus (*delete_operation)(LtOperation);
  LtStatus (*create_layout)(LtLayout*, int type, uint64_t rows, uint64_t columns, int64_t leading);
  LtStatus (*set_layout)(LtLayout, int attribute, const void*, size_t);
  LtStatus (*delete_layout)(LtLayout);
  LtStatus (*create_preference)(LtPreference*);
  LtStatus (*set_preference)(LtPreference, int attribute, const void*, size_t);
  LtStatus (*delete_preference)(LtPreference);
  LtStatus (*find_algorithms)(LtHandle, LtOperation, LtLayout a, LtLayout b, LtLayout c, LtLayout d,
                              LtPreference, int wanted, LtHeuristic*, int* found);
  LtStatus (*get_algorithm)(const LtAlgorithm*, int attribute, void* value, size_t,
                            size_t* written);
  LtStatus (*multiply)(LtHandle, LtOperation, const void* alpha, const void* a, LtLayout,
                       const void* b, LtLayout, const void* beta, const void* c, LtLayout, void* d,
                       LtLayout, const LtAlgorithm*, void* workspace, size_t workspace_bytes,
                       CuStream);
};

// Null where the process has no cuBLASLt of version 12 or later, and where TENSORD_CUBLASLT is 0.
const CublasLt* GetCublasLt();

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_CUDA_CUBLASLT_H_
