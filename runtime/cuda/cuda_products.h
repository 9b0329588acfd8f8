// SPDX-License-Identifier: Apache-2.0
// Matrix products of CUDA programs by cuBLASLt itself: descriptors and algorithm once per program
// and device, operands by their addresses, without tensors.
#ifndef TENSORD_RUNTIME_CUDA_CUDA_PRODUCTS_H_
#define TENSORD_RUNTIME_CUDA_CUDA_PRODUCTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/call/tensors.h"
#include "runtime/cuda/product_shape.h"

namespace tensord::runtime {

// What the products of a program have on one device.
class PreparedProducts {
 public:
  virtual ~PreparedProducts() = default;
  // Queues a product. False: nothing was done, and torch is to run it.
  virtual bool Run(CallState& state, uint32_t call) const = 0;
};

// The products of one program.
class CudaProducts {
 public:
  // At load: picks the calls that are products, of a program for devices of `sm`.
  void Find(const TensordProgram& program, uint32_t sm);
  bool Has(uint32_t call) const { return call < shape_of_.size() && shape_of_[call] != kNone; }
  // On the thread's current device, whose index is `device`. One caller at a time. Null: torch is
  // to run all of them. `this` outlives the result.
  std::unique_ptr<PreparedProducts> Prepare(int32_t device) const;

 private:
  friend class LtProducts;
  static constexpr uint32_t kNone = UINT32_MAX;

  const CublasLt* lt_ = nullptr;
  uint32_t sm_ = 0;
  std::vector<ProductShape> shapes_;  // all different
  std::vector<uint32_t> shape_of_;    // per call
  std::vector<ProductCall> calls_;    // per call
};

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_CUDA_CUDA_PRODUCTS_H_
