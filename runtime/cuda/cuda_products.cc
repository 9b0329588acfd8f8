// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cuda_products.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <ranges>
#include <span>
#include <utility>

#include "runtime/call/workspace.h"
#include "runtime/cuda/cuda_driver.h"
#include "runtime/cuda/product_choice.h"

namespace tensord::runtime {
namespace {

constexpr uint32_t kOperandAlignment = 16;  // bytes
constexpr int kMostAlgorithms = 8;          // looked at
// Algorithms that hand out tiles on the way count them in a few bytes, which are cleared by a
// launch of their own before each product. Those that do not, where the library has them, took 1 to
// 2 us less for products of 30 to 65 us on an H200.
constexpr size_t kCounterBytes = 256;

// A device's handle, made at its first use and never deleted: programs may outlive everything.
LtHandle HandleOf(const CublasLt& lt, int32_t device) {
  static std::array<std::atomic<LtHandle>, kMaxDevices> handles{};
  if (device < 0 || static_cast<size_t>(device) >= kMaxDevices) return nullptr;
  auto& slot = handles[static_cast<size_t>(device)];
  LtHandle handle = slot.load(std::memory_order_acquire);
  if (handle == nullptr && lt.create(&handle) == 0) slot.store(handle, std::memory_order_release);
  return handle;
}

template <typename Object, LtStatus (*CublasLt::*Delete)(Object)>
class Owned {
 public:
  explicit Owned(const CublasLt& lt) : lt_(lt) {}
  ~Owned() {
    if (object_ != nullptr) (lt_.*Delete)(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Object* address() { return &object_; }
  Object get() const { return object_; }

 private:
  const CublasLt& lt_;
  Object object_ = nullptr;
};
using Operation = Owned<LtOperation, &CublasLt::delete_operation>;
using MatrixLayout = Owned<LtLayout, &CublasLt::delete_layout>;
using Preference = Owned<LtPreference, &CublasLt::delete_preference>;

bool Aligned(std::initializer_list<const void*> addresses) {
  uintptr_t bits = 0;
  for (const void* address : addresses) bits |= reinterpret_cast<uintptr_t>(address);
  return bits % kOperandAlignment == 0;
}

struct Addresses {
  const void *a, *b, *c;
  void* d;
  const void* bias;  // null: none
};

// A shape with its descriptors and the algorithm for it.
class LtProduct {
 public:
  LtProduct(const CublasLt& lt, const ProductShape& shape)
      : lt_(lt), shape_(shape), operation_(lt), a_(lt), b_(lt), c_(lt), d_(lt) {}

  // For devices of `sm`. False when the library has nothing for it.
  bool Prepare(LtHandle handle, uint32_t sm) {
    const ProductShape& s = shape_;
    return MakeOperation() && MakeLayout(s.a, s.m, s.k, &a_) && MakeLayout(s.b, s.k, s.n, &b_) &&
           MakeLayout(s.c, s.m, s.n, &c_) && MakeLayout(s.d, s.m, s.n, &d_) && Choose(handle, sm);
  }

  size_t workspace_bytes() const { return workspace_bytes_; }

  bool Takes(const Addresses& at) const {
    return !broken_.load(std::memory_order_relaxed) && Aligned({at.a, at.b, at.c, at.d, at.bias});
  }

  // Of operands that it takes.
  bool Run(LtHandle handle, const Addresses& at, void* workspace, CuStream stream) {
    std::unique_lock<std::mutex> lock;
    if (shape_.has_bias()) {
      // The bias is part of the description, which threads share.
      lock = std::unique_lock(mutex_);
      if (lt_.set_operation(operation_.get(), kLtBiasPointer, &at.bias, sizeof at.bias) != 0) {
        return false;
      }
    }
    const LtStatus status = lt_.multiply(
        handle, operation_.get(), &shape_.alpha, at.a, a_.get(), at.b, b_.get(), &shape_.beta, at.c,
        c_.get(), at.d, d_.get(), &algorithm_, workspace, workspace_bytes_, stream);
    if (status != 0) broken_.store(true, std::memory_order_relaxed);
    return status == 0;
  }

 private:
  bool MakeOperation() {
    if (lt_.create_operation(operation_.address(), kLtCompute32, kLtFloat32) != 0) return false;
    const int32_t transpose_a = shape_.a.transposed, transpose_b = shape_.b.transposed;
    // Where it lies decides what is expected of its alignment.
    const void* const bias = reinterpret_cast<void*>(uintptr_t{kOperandAlignment});
    auto set = [this](int attribute, const auto& value) {
      return lt_.set_operation(operation_.get(), attribute, &value, sizeof value) == 0;
    };
    return set(kLtTransposeA, transpose_a) && set(kLtTransposeB, transpose_b) &&
           set(kLtEpilogue, shape_.epilogue) && (!shape_.has_bias() || set(kLtBiasPointer, bias));
  }

  bool MakeLayout(const ProductOperand& operand, int64_t rows, int64_t columns,
                  MatrixLayout* layout) {
    if (operand.transposed) std::swap(rows, columns);
    if (lt_.create_layout(layout->address(), shape_.type, static_cast<uint64_t>(rows),
                          static_cast<uint64_t>(columns), operand.leading) != 0) {
      return false;
    }
    if (shape_.batch == 1) return true;
    const auto batch = static_cast<int32_t>(shape_.batch);
    return lt_.set_layout(layout->get(), kLtBatchCount, &batch, sizeof batch) == 0 &&
           lt_.set_layout(layout->get(), kLtBatchStride, &operand.batch_stride,
                          sizeof operand.batch_stride) == 0;
  }

  // Algorithms that take at most so many bytes for themselves, the library's first choice first.
  std::vector<LtHeuristic> Search(LtHandle handle, uint64_t most_bytes) {
    Preference preference(lt_);
    if (lt_.create_preference(preference.address()) != 0) return {};
    auto set = [&](int attribute, const auto& value) {
      return lt_.set_preference(preference.get(), attribute, &value, sizeof value) == 0;
    };
    // Partial sums stay in float32, as the strictest of torch's settings asks.
    bool made = set(kLtMaxWorkspace, most_bytes) && set(kLtReductions, kLtReduceInComputeType);
    for (int operand = kLtAlignmentA; operand <= kLtAlignmentD; ++operand) {
      made = made && set(operand, kOperandAlignment);
    }
    std::vector<LtHeuristic> found(kMostAlgorithms);
    int count = 0;
    if (!made ||
        lt_.find_algorithms(handle, operation_.get(), a_.get(), b_.get(), c_.get(), d_.get(),
                            preference.get(), kMostAlgorithms, found.data(), &count) != 0) {
      count = 0;
    }
    found.resize(static_cast<size_t>(count));
    std::erase_if(found, [](const LtHeuristic& algorithm) { return algorithm.state != 0; });
    return found;
  }

  OfferedAlgorithm Describe(const LtHeuristic& found) const {
    auto get = [&](int attribute, int32_t absent) {
      int32_t value = 0;
      size_t written = 0;
      const LtStatus status =
          lt_.get_algorithm(&found.algorithm, attribute, &value, sizeof value, &written);
      return status == 0 && written == sizeof value ? value : absent;
    };
    return {.family = get(kLtFamily, -1),
            .tile = get(kLtTile, 0),
            .option = get(kLtOption, 0),
            .split = get(kLtSplit, 1),
            .waves = found.waves};
  }

  // False when the library has none.
  bool Choose(LtHandle handle, uint32_t sm) {
    std::vector<LtHeuristic> found = Search(handle, shape_.most_workspace);
    if (found.empty()) return false;
    const size_t first_bytes = found.front().workspace_bytes;
    const bool only_counts = first_bytes > 0 && first_bytes <= kCounterBytes;
    // Its first choice, and all that take no workspace.
    std::vector<LtHeuristic> offered;
    if (only_counts || MayChooseAnother(sm)) offered = Search(handle, 0);
    if (offered.empty() || !only_counts) offered.insert(offered.begin(), found.front());
    std::vector<OfferedAlgorithm> described;
    for (const LtHeuristic& algorithm : offered) described.push_back(Describe(algorithm));
    const LtHeuristic& chosen = offered[ChooseAlgorithm(described, shape_.k, sm)];
    algorithm_ = chosen.algorithm;
    workspace_bytes_ = chosen.workspace_bytes;
    return true;
  }

  const CublasLt& lt_;
  const ProductShape& shape_;
  Operation operation_;
  MatrixLayout a_, b_, c_, d_;
  LtAlgorithm algorithm_ = {};
  size_t workspace_bytes_ = 0;
  std::mutex mutex_;                 // of the bias in operation_
  std::atomic<bool> broken_{false};  // the library refused it once: torch runs it from then on
};

// For each call, how many follow one another from it on, with no other work between.
std::vector<size_t> CallsInARow(const TensordProgram& program) {
  std::vector<size_t> in_a_row(program.calls.size());
  size_t count = 0;
  for (const StepPlan& step : std::views::reverse(program.steps)) {
    if (step.kind == StepPlan::kLaunch || step.kind == StepPlan::kZeroFill) count = 0;
    if (step.kind == StepPlan::kCall) in_a_row[step.index] = ++count;
  }
  return in_a_row;
}

}  // namespace

class LtProducts final : public PreparedProducts {
 public:
  LtProducts(const CudaProducts& all, LtHandle handle) : all_(all), handle_(handle) {
    for (const ProductShape& shape : all.shapes_) {
      auto product = std::make_unique<LtProduct>(*all.lt_, shape);
      if (!product->Prepare(handle, all.sm_)) product.reset();
      const size_t bytes = product ? product->workspace_bytes() : 0;
      if (!IsLarge(bytes)) small_bytes_ = std::max(small_bytes_, bytes);
      products_.push_back(std::move(product));
    }
  }

  bool Run(CallState& state, uint32_t call) const override {
    LtProduct* const product = products_[all_.shape_of_[call]].get();
    if (product == nullptr) return false;
    const ProductCall& plan = all_.calls_[call];
    const auto& at = state.addresses;
    const Addresses addresses{.a = at[plan.a],
                              .b = at[plan.b],
                              .c = at[plan.c],
                              .d = at[plan.d],
                              .bias = plan.shape.has_bias() ? at[plan.bias] : nullptr};
    if (!product->Takes(addresses)) return false;
    const size_t bytes = product->workspace_bytes();
    void* workspace = nullptr;
    if (bytes > 0 && (workspace = Workspace(state, bytes)) == nullptr) return false;
    const bool runs = product->Run(handle_, addresses, workspace, state.stream);
    if (IsLarge(bytes)) FreeProductWorkspace(state);
    if (!runs) return false;
    state.calls_done = call + plan.calls;
    return true;
  }

 private:
  // A large one would only lie there until the next product that wants it: that takes it again.
  static bool IsLarge(size_t bytes) { return bytes > kLeastWorkspace; }

  // A small one is for all such products of a call: they run one after another.
  void* Workspace(CallState& state, size_t bytes) const {
    if (IsLarge(bytes)) FreeProductWorkspace(state);
    if (state.product_workspace == nullptr) {
      Layout layout;
      layout.device = kTorchCuda;  // of dtype 0: uint8
      const auto size = static_cast<int64_t>(std::max(bytes, small_bytes_));
      if (NewVector(state, layout, size, &state.product_workspace) != TENSORD_OK) return nullptr;
    }
    void* data = nullptr;
    return state.torch->get_data_ptr(state.product_workspace, &data) == 0 ? data : nullptr;
  }

  const CudaProducts& all_;
  LtHandle handle_;
  std::vector<std::unique_ptr<LtProduct>> products_;  // per shape; null: the library has none
  size_t small_bytes_ = 0;                            // of the small workspaces' largest
};

void CudaProducts::Find(const TensordProgram& program, uint32_t sm) {
  sm_ = sm;
  if ((lt_ = GetCublasLt()) == nullptr) return;
  const std::span all(program.calls);
  const std::vector<size_t> in_a_row = CallsInARow(program);
  for (size_t i = 0; i < all.size(); ++i) {
    uint32_t number = kNone;
    ProductCall found;
    if (auto product = FindProduct(program, all.subspan(i, in_a_row[i]))) {
      found = *product;
      const auto known = std::ranges::find(shapes_, found.shape);
      number = static_cast<uint32_t>(known - shapes_.begin());
      if (known == shapes_.end()) shapes_.push_back(found.shape);
    }
    shape_of_.push_back(number);
    calls_.push_back(found);
  }
}

std::unique_ptr<PreparedProducts> CudaProducts::Prepare(int32_t device) const {
  if (shapes_.empty()) return nullptr;
  const LtHandle handle = HandleOf(*lt_, device);
  return handle != nullptr ? std::make_unique<LtProducts>(*this, handle) : nullptr;
}

}  // namespace tensord::runtime
