// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/runtime/fake_cublaslt.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>

#include "runtime/cuda/cublaslt.h"

namespace tensord::testing {

FakeCublasLt& FakeLt() {
  static FakeCublasLt fake;
  return fake;
}

float FromBfloat16(const void* value) {
  uint16_t bits = 0;
  std::memcpy(&bits, value, sizeof bits);
  const uint32_t wide = uint32_t{bits} << 16;
  float result = 0;
  std::memcpy(&result, &wide, sizeof result);
  return result;
}

void ToBfloat16(float value, void* to) {
  uint32_t wide = 0;
  std::memcpy(&wide, &value, sizeof wide);
  const auto bits = static_cast<uint16_t>((wide + 0x8000) >> 16);
  std::memcpy(to, &bits, sizeof bits);
}

}  // namespace tensord::testing

namespace tensord::runtime {

struct LtOperationOpaque {
  int32_t transposed[2] = {0, 0};
  uint32_t epilogue = kLtNoEpilogue;
  const char* bias = nullptr;
};
struct LtLayoutOpaque {
  int64_t rows, columns, leading;
  int32_t batch = 1;
  int64_t batch_stride = 0;
};
struct LtPreferenceOpaque {
  uint64_t workspace = 0;
  uint32_t reductions = 7;
};

}  // namespace tensord::runtime

using namespace tensord::runtime;  // NOLINT: the library's functions follow
using tensord::testing::FakeLt;

namespace {

constexpr int kInvalid = 7, kUnsupported = 15;

template <typename Object>
int Delete(Object* object) {
  --FakeLt().live;
  delete object;
  return 0;
}

template <typename Value>
int Set(Value* to, const void* value, size_t size) {
  if (size != sizeof(Value)) return kInvalid;
  std::memcpy(to, value, size);
  return 0;
}

const char* At(const void* base, const LtLayoutOpaque& layout, int64_t row, int64_t column,
               int64_t batch) {
  return static_cast<const char*>(base) +
         2 * (row + column * layout.leading + batch * layout.batch_stride);
}

float Read(const void* base, const LtLayoutOpaque& layout, bool transposed, int64_t row,
           int64_t column, int64_t batch) {
  if (transposed) std::swap(row, column);
  return tensord::testing::FromBfloat16(At(base, layout, row, column, batch));
}

float Finish(const LtOperationOpaque& operation, float sum, int64_t row) {
  if (operation.epilogue == kLtNoEpilogue) return sum;
  sum += tensord::testing::FromBfloat16(operation.bias + 2 * row);
  return operation.epilogue == kLtReluBias ? std::max(sum, 0.0f) : sum;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

size_t cublasLtGetVersion() { return 130000; }
LtStatus cublasLtCreate(LtHandle* handle) {
  *handle = reinterpret_cast<LtHandle>(uintptr_t{1});
  return 0;
}

LtStatus cublasLtMatmulDescCreate(LtOperation* operation, int compute, int scale) {
  if (compute != kLtCompute32 || scale != kLtFloat32) return kInvalid;
  ++FakeLt().live;
  *operation = new LtOperationOpaque;
  return 0;
}
LtStatus cublasLtMatmulDescSetAttribute(LtOperation operation, int attribute, const void* value,
                                        size_t size) {
  switch (attribute) {
    case kLtTransposeA:
    case kLtTransposeB:
      return Set(&operation->transposed[attribute - kLtTransposeA], value, size);
    case kLtEpilogue:
      return Set(&operation->epilogue, value, size);
    case kLtBiasPointer:
      return Set(&operation->bias, value, size);
    default:
      return kInvalid;
  }
}
LtStatus cublasLtMatmulDescDestroy(LtOperation operation) { return Delete(operation); }

LtStatus cublasLtMatrixLayoutCreate(LtLayout* layout, int type, uint64_t rows, uint64_t columns,
                                    int64_t leading) {
  if (type != kLtBfloat16 || leading < static_cast<int64_t>(rows)) return kInvalid;
  ++FakeLt().live;
  *layout = new LtLayoutOpaque{static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading};
  return 0;
}
LtStatus cublasLtMatrixLayoutSetAttribute(LtLayout layout, int attribute, const void* value,
                                          size_t size) {
  if (attribute == kLtBatchCount) return Set(&layout->batch, value, size);
  if (attribute == kLtBatchStride) return Set(&layout->batch_stride, value, size);
  return kInvalid;
}
LtStatus cublasLtMatrixLayoutDestroy(LtLayout layout) { return Delete(layout); }

LtStatus cublasLtMatmulPreferenceCreate(LtPreference* preference) {
  ++FakeLt().live;
  *preference = new LtPreferenceOpaque;
  return 0;
}
LtStatus cublasLtMatmulPreferenceSetAttribute(LtPreference preference, int attribute,
                                              const void* value, size_t size) {
  if (attribute == kLtMaxWorkspace) return Set(&preference->workspace, value, size);
  if (attribute == kLtReductions) return Set(&preference->reductions, value, size);
  uint32_t alignment = 0;
  return attribute >= kLtAlignmentA && attribute <= kLtAlignmentD ? Set(&alignment, value, size)
                                                                  : kInvalid;
}
LtStatus cublasLtMatmulPreferenceDestroy(LtPreference preference) { return Delete(preference); }

LtStatus cublasLtMatmulAlgoGetHeuristic(LtHandle, LtOperation, LtLayout, LtLayout, LtLayout,
                                        LtLayout, LtPreference preference, int wanted,
                                        LtHeuristic* results, int* found) {
  ++FakeLt().searches;
  *found = 0;
  for (const auto& known : FakeLt().algorithms) {
    if (*found == wanted || known.workspace_bytes > preference->workspace) continue;
    LtHeuristic& result = results[(*found)++];
    result = {};
    result.workspace_bytes = known.workspace_bytes;
    result.waves = known.waves;
    result.algorithm.data[0] = known.workspace_bytes;
    result.algorithm.data[1] = static_cast<uint64_t>(known.tile);
    result.algorithm.data[2] = static_cast<uint64_t>(known.option);
    result.algorithm.data[3] = static_cast<uint64_t>(known.family);
  }
  return *found > 0 ? 0 : kUnsupported;
}

LtStatus cublasLtMatmulAlgoConfigGetAttribute(const LtAlgorithm* algorithm, int attribute,
                                              void* value, size_t size, size_t* written) {
  const std::map<int, uint64_t> attributes = {{kLtTile, algorithm->data[1]},
                                              {kLtOption, algorithm->data[2]},
                                              {kLtFamily, algorithm->data[3]},
                                              {kLtSplit, 1}};
  const auto known = attributes.find(attribute);
  if (known == attributes.end() || size != sizeof(int32_t)) return kInvalid;
  const auto number = static_cast<int32_t>(known->second);
  std::memcpy(value, &number, sizeof number);
  *written = sizeof number;
  return 0;
}

LtStatus cublasLtMatmul(LtHandle, LtOperation operation, const void* alpha, const void* a,
                        LtLayout a_layout, const void* b, LtLayout b_layout, const void* beta,
                        const void* c, LtLayout c_layout, void* d, LtLayout d_layout,
                        const LtAlgorithm* algorithm, void* workspace, size_t, CuStream stream) {
  if (!FakeLt().runs) return kUnsupported;
  ++FakeLt().products;
  FakeLt().algorithm = {algorithm->data[0], static_cast<int>(algorithm->data[1])};
  FakeLt().workspace = workspace;
  FakeLt().stream = stream;
  const auto [transposed_a, transposed_b] = operation->transposed;
  const int64_t depth = transposed_a != 0 ? a_layout->rows : a_layout->columns;
  const float factor = *static_cast<const float*>(alpha), rest = *static_cast<const float*>(beta);
  for (int32_t batch = 0; batch < d_layout->batch; ++batch) {
    for (int64_t row = 0; row < d_layout->rows; ++row) {
      for (int64_t column = 0; column < d_layout->columns; ++column) {
        float sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          sum += Read(a, *a_layout, transposed_a != 0, row, k, batch) *
                 Read(b, *b_layout, transposed_b != 0, k, column, batch);
        }
        sum *= factor;
        if (rest != 0) sum += rest * Read(c, *c_layout, false, row, column, batch);
        tensord::testing::ToBfloat16(
            Finish(*operation, sum, row),
            const_cast<char*>(At(d, *d_layout, row, column, batch)));  // d is the caller's to write
      }
    }
  }
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
