// SPDX-License-Identifier: Apache-2.0
// Matrix products of CUDA programs by cuBLASLt: which calls, which layouts, when torch is asked.
#include <utility>

#include "runtime/cuda/cublaslt.h"
#include "tests/unit/runtime/cuda_fixture.h"
#include "tests/unit/runtime/fake_cublaslt.h"

namespace tensord::runtime {
namespace {

using ::testing::ElementsAre;
using testing::FakeLt;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Operand {
  std::vector<int64_t> sizes, strides;
  int64_t misalign = 0;
};

std::string MetaOf(const Operand& operand, const std::string& dtype) {
  std::string text = "dtype: " + dtype + " device: DEVICE_TYPE_CUDA storage_offset { constant: 0 }";
  for (int64_t size : operand.sizes) text += " sizes { constant: " + std::to_string(size) + " }";
  for (int64_t stride : operand.strides) {
    text += " strides { constant: " + std::to_string(stride) + " }";
  }
  return text;
}

// One call; the operands are inputs, the result is the output.
struct Product {
  std::string op;
  std::vector<Operand> operands;
  Operand out;
  std::vector<std::string> numbers;  // arguments between the operands and the result
  std::string dtype = "DTYPE_BFLOAT16";

  v1::Artifact Plan() const {
    std::string text = "format_version: 6 target { cuda { sm: 90 } } modules { kind: CUBIN }";
    std::string arguments;
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::string meta = MetaOf(operands[i], dtype), number = std::to_string(i);
      text += " inputs { tensor { " + meta + " } } buffers { meta { " + meta +
              " } input: " + number + " }";
      arguments += " args { value { value: " + number + " } }";
    }
    for (const std::string& number : numbers) arguments += " args { " + number + " }";
    const std::string last = std::to_string(operands.size());
    text += " buffers { meta { " + MetaOf(out, dtype) + " } owned: true } steps { call { op: \"" +
            op + "\" overload: \"out\" into_out: true node: \"p\"" + arguments +
            " args { value { value: " + last + " } } results: " + last +
            " } } outputs { buffer: " + last + " }";
    return Parse(text);
  }
};

const char* const kOne = "real: 1";

class RuntimeCudaProducts : public RuntimeCuda {
 protected:
  void SetUp() override {
    RuntimeCuda::SetUp();
    FakeLt().Reset();
  }
  void TearDown() override {
    for (TensordTensor tensor : inputs_) testing::Delete(tensor);
    RuntimeCuda::TearDown();
    EXPECT_EQ(FakeLt().live, 0);
  }

  void Start(const Product& product) {
    for (const Operand& operand : product.operands) {
      int64_t extent = 1;
      for (size_t i = 0; i < operand.sizes.size(); ++i) {
        extent += (operand.sizes[i] - 1) * operand.strides[i];
      }
      TensordTensor tensor = NewStrided(operand, extent);
      for (int64_t i = 0; i < extent; ++i) {
        testing::ToBfloat16(static_cast<float>((i * 7 + 3 * operand.sizes.back()) % 9 - 4),
                            Bytes(tensor) + 2 * i);
      }
      inputs_.push_back(tensor);
    }
    program_ = Load(product.Plan(), "unused 1\n");
  }

  // The result's elements where they lie in memory.
  int RunProduct() {
    std::vector<TensordValue> values(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      values[i].kind = TENSORD_TENSOR;
      values[i].tensor = inputs_[i];
    }
    TensordValue output = {};
    const int code = tensord_program_run(program_, values.data(), values.size(), &output, 1);
    got_.clear();
    if (code != 0) return code;
    for (int i = 0; i < 64; ++i)
      got_.push_back(testing::FromBfloat16(Bytes(output.tensor) + 2 * i));
    testing::Delete(output.tensor);
    return code;
  }

  float Element(const Product& product, size_t operand, std::vector<int64_t> at) const {
    int64_t offset = 0;
    for (size_t i = 0; i < at.size(); ++i) offset += at[i] * product.operands[operand].strides[i];
    return testing::FromBfloat16(Bytes(inputs_[operand]) + 2 * offset);
  }

  // Runs a product and compares with `added` plus the product of the last two operands.
  void Expect(const Product& product, const std::function<float(int64_t, int64_t)>& added = {},
              bool relu = false) {
    SCOPED_TRACE(product.op);
    Start(product);
    ASSERT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
    EXPECT_EQ(FakeLt().products, 1);
    EXPECT_THAT(Fake().products, IsEmpty());
    const bool batched = product.out.sizes.size() == 3;
    const size_t left = product.operands.size() - 2;
    const auto& sizes = product.out.sizes;
    const size_t first = batched ? 1 : 0;
    for (int64_t batch = 0; batch < (batched ? sizes[0] : 1); ++batch) {
      for (int64_t row = 0; row < sizes[first]; ++row) {
        for (int64_t column = 0; column < sizes[first + 1]; ++column) {
          float sum = added ? added(row, column) : 0;
          for (int64_t k = 0; k < product.operands[left].sizes.back(); ++k) {
            std::vector<int64_t> a = {row, k}, b = {k, column};
            if (batched) a.insert(a.begin(), batch), b.insert(b.begin(), batch);
            sum += Element(product, left, a) * Element(product, left + 1, b);
          }
          if (relu) sum = std::max(sum, 0.0f);
          int64_t at = row * product.out.strides[first] + column * product.out.strides[first + 1];
          if (batched) at += batch * product.out.strides[0];
          EXPECT_EQ(got_[static_cast<size_t>(at)], sum) << batch << ", " << row << ", " << column;
        }
      }
    }
  }

  static char* Bytes(TensordTensor tensor) {
    return reinterpret_cast<char*>(testing::Data(tensor));
  }
  static TensordTensor NewStrided(const Operand& operand, int64_t extent);

  std::vector<TensordTensor> inputs_;
  TensordProgram* program_ = nullptr;
  std::vector<float> got_;
};

}  // namespace
}  // namespace tensord::runtime

extern "C" int32_t aoti_torch__reinterpret_tensor(TensordTensor, int64_t, const int64_t*,
                                                  const int64_t*, int64_t, TensordTensor*);

namespace tensord::runtime {
namespace {

TensordTensor RuntimeCudaProducts::NewStrided(const Operand& operand, int64_t extent) {
  TensordTensor whole = NewFake({extent}, kCuda, 0, {}, operand.misalign, testing::kBfloat16);
  TensordTensor tensor = nullptr;
  aoti_torch__reinterpret_tensor(whole, static_cast<int64_t>(operand.sizes.size()),
                                 operand.sizes.data(), operand.strides.data(), 0, &tensor);
  testing::Delete(whole);
  return tensor;
}

const Product kPlain = {"aten::mm", {{{3, 4}, {4, 1}}, {{4, 5}, {5, 1}}}, {{3, 5}, {5, 1}}};

TEST_F(RuntimeCudaProducts, ByRows) {
  Expect(kPlain);
  EXPECT_EQ(FakeLt().stream, testing::StreamOf(0));
  EXPECT_EQ(Fake().allocations, 1);  // the result
}

TEST_F(RuntimeCudaProducts, ByColumns) {
  Expect({"aten::mm", {{{3, 4}, {1, 3}}, {{4, 5}, {1, 8}}}, {{3, 5}, {5, 1}}});
}

TEST_F(RuntimeCudaProducts, AResultByColumns) {
  Expect({"aten::mm", {{{3, 4}, {4, 1}}, {{4, 5}, {1, 4}}}, {{3, 5}, {1, 3}}});
}

TEST_F(RuntimeCudaProducts, PartsOfWiderMatricesAndSingleRows) {
  Expect({"aten::mm", {{{1, 4}, {9, 1}}, {{4, 1}, {6, 3}}}, {{1, 1}, {1, 1}}});
}

TEST_F(RuntimeCudaProducts, Batches) {
  // Heads side by side in a row, as attention has them; one key for all.
  Expect({"aten::bmm", {{{2, 3, 4}, {4, 8, 1}}, {{2, 4, 5}, {0, 1, 4}}}, {{2, 3, 5}, {15, 5, 1}}});
}

TEST_F(RuntimeCudaProducts, ABiasForEachColumn) {
  Product product = {"aten::addmm",
                     {{{5}, {1}}, {{3, 4}, {4, 1}}, {{4, 5}, {1, 4}}},
                     {{3, 5}, {5, 1}},
                     {kOne, kOne}};
  Expect(product, [&](int64_t, int64_t column) { return Element(product, 0, {column}); });
}

TEST_F(RuntimeCudaProducts, ABiasAndAnActivation) {
  Product product = {"aten::_addmm_activation",
                     {{{5}, {1}}, {{3, 4}, {4, 1}}, {{4, 5}, {1, 4}}},
                     {{3, 5}, {5, 1}},
                     {kOne, kOne, "boolean: false"}};
  Expect(product, [&](int64_t, int64_t column) { return Element(product, 0, {column}); }, true);
}

TEST_F(RuntimeCudaProducts, AWholeMatrixAdded) {
  Product product = {"aten::addmm",
                     {{{3, 5}, {1, 4}}, {{3, 4}, {4, 1}}, {{4, 5}, {5, 1}}},
                     {{3, 5}, {1, 3}},
                     {"real: 0.5", "integer { constant: 1 }"}};
  Expect(product,
         [&](int64_t row, int64_t column) { return 0.5f * Element(product, 0, {row, column}); });
}

// relu(residual + a b + bias) in three calls into one result.
struct ResidualProduct {
  Product product = {"aten::addmm",
                     {{{3, 5}, {5, 1}}, {{3, 4}, {4, 1}}, {{4, 5}, {5, 1}}},
                     {{3, 5}, {5, 1}},
                     {kOne, kOne}};
  Operand bias = {{5}, {1}};
  std::string factor = kOne;

  // `between`: steps behind the product.
  v1::Artifact Plan(const std::string& between = "") const {
    v1::Artifact artifact = product.Plan();
    artifact.MergeFrom(Parse(between));
    // The bias is one input more, and buffer 4.
    const v1::Artifact more =
        Parse("inputs { tensor { " + MetaOf(bias, "DTYPE_BFLOAT16") + " } } buffers { meta { " +
              MetaOf(bias, "DTYPE_BFLOAT16") + " } input: 3 }");
    artifact.MergeFrom(more);
    artifact.MergeFrom(
        Parse(Call("aten::add", " args { value { value: 4 } } args { " + factor + " }") +
              Call("aten::relu", "")));
    return artifact;
  }

 private:
  static std::string Call(const std::string& op, const std::string& arguments) {
    return " steps { call { op: \"" + op + "\" overload: \"out\" into_out: true node: \"q\"" +
           " args { value { value: 3 } }" + arguments +
           " args { value { value: 3 } } results: 3 } }";
  }
};

class RuntimeCudaResidual : public RuntimeCudaProducts {
 protected:
  void TearDown() override {
    tensord_set_operator_caller(nullptr, nullptr);
    RuntimeCudaProducts::TearDown();
  }

  void StartPlan(const ResidualProduct& residual, const std::string& between = "") {
    tensord_set_operator_caller(
        [](void* called, const TensordOperatorCall* call) -> int {
          static_cast<std::vector<std::string>*>(called)->emplace_back(call->op);
          return TENSORD_OK;
        },
        &called_);
    Product all = residual.product;
    Start(all);
    all.operands = {residual.bias};
    Start(all);  // the bias behind them
    program_ = Load(residual.Plan(between), "unused 1\n");
  }

  std::vector<std::string> called_;  // operators of torch
};

TEST_F(RuntimeCudaResidual, AMatrixAndABiasAndReluAreOneProduct) {
  const ResidualProduct residual;
  StartPlan(residual);
  for (int i = 1; i <= 2; ++i) {
    ASSERT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
    EXPECT_EQ(FakeLt().products, i);
  }
  EXPECT_THAT(called_, IsEmpty());
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t column = 0; column < 5; ++column) {
      float sum = Element(residual.product, 0, {row, column}) +
                  testing::FromBfloat16(Bytes(inputs_[3]) + 2 * column);
      for (int64_t k = 0; k < 4; ++k) {
        sum += Element(residual.product, 1, {row, k}) * Element(residual.product, 2, {k, column});
      }
      EXPECT_EQ(got_[static_cast<size_t>(row * 5 + column)], std::max(sum, 0.0f));
    }
  }
}

TEST_F(RuntimeCudaResidual, OneProductIsOneStepOfAProfile) {
  StartPlan({});
  const auto numbers = [&] {
    const TensordRunTimes* runs = nullptr;
    size_t count = 0;
    uint64_t dropped = 0;
    EXPECT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
    EXPECT_EQ(tensord_profile_take(&runs, &count, &dropped), TENSORD_OK);
    EXPECT_EQ(count, 1u);
    std::vector<uint32_t> of_calls;
    for (size_t i = 0; count == 1 && i < runs[0].num_steps; ++i) {
      EXPECT_EQ(runs[0].steps[i].kind, TENSORD_STEP_CALL);
      of_calls.push_back(runs[0].steps[i].number);
    }
    return of_calls;
  };
  ASSERT_EQ(tensord_profile_begin(), TENSORD_OK);
  EXPECT_THAT(numbers(), ElementsAre(0));
  FakeLt().runs = false;
  EXPECT_THAT(numbers(), ElementsAre(0, 1, 2));
  tensord_profile_end();
}

TEST_F(RuntimeCudaResidual, EachCallByItselfWhereTheLibraryFails) {
  FakeLt().runs = false;
  StartPlan({});
  ASSERT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(called_, ElementsAre("aten::addmm", "aten::add", "aten::relu"));
}

TEST_F(RuntimeCudaResidual, EachCallByItselfWhereOtherWorkIsBetween) {
  StartPlan({}, "steps { zero_fill { offset { constant: 0 } bytes { constant: 0 } } }");
  ASSERT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
  EXPECT_EQ(FakeLt().products, 1);
  EXPECT_THAT(called_, ElementsAre("aten::add", "aten::relu"));
}

TEST_F(RuntimeCudaResidual, AMisalignedBiasGoesToTorch) {
  StartPlan({.bias = {{5}, {1}, 2}});
  ASSERT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
  EXPECT_EQ(FakeLt().products, 0);
  EXPECT_THAT(called_, ElementsAre("aten::addmm", "aten::add", "aten::relu"));
}

TEST_F(RuntimeCudaResidual, OnlyABiasForEachColumn) {
  for (const ResidualProduct& other :
       {ResidualProduct{.bias = {{3, 5}, {5, 1}}}, ResidualProduct{.bias = {{5}, {2}}},
        ResidualProduct{.factor = "real: 2"}}) {
    for (TensordTensor tensor : std::exchange(inputs_, {})) testing::Delete(tensor);
    called_.clear();
    StartPlan(other);
    ASSERT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
    EXPECT_THAT(called_, ElementsAre("aten::add", "aten::relu"));
  }
  EXPECT_EQ(FakeLt().products, 3);
}

TEST_F(RuntimeCudaProducts, WhatTheLibraryDoesNotTakeGoesToTorch) {
  Product wide = kPlain;
  wide.operands[0].strides = {8, 2};
  Start(wide);
  EXPECT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(Fake().products, ElementsAre("cuda_mm_out on cuda"));
  EXPECT_EQ(FakeLt().searches, 0);
}

TEST_F(RuntimeCudaProducts, MisalignedOperandsGoToTorch) {
  Product product = kPlain;
  product.operands[1].misalign = 2;
  Start(product);
  EXPECT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(Fake().products, SizeIs(1));
  EXPECT_EQ(FakeLt().products, 0);
}

TEST_F(RuntimeCudaProducts, WithoutAnAlgorithmTorchIsAsked) {
  FakeLt().algorithms.clear();
  Start(kPlain);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(Fake().products, SizeIs(2));
  EXPECT_EQ(FakeLt().searches, 1);
}

TEST_F(RuntimeCudaProducts, WhatTheLibraryRefusedOnceGoesToTorchFromThenOn) {
  Start(kPlain);
  FakeLt().runs = false;
  EXPECT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
  FakeLt().runs = true;
  EXPECT_EQ(RunProduct(), TENSORD_OK);
  EXPECT_THAT(Fake().products, SizeIs(2));
}

TEST_F(RuntimeCudaProducts, CanBeSwitchedOff) {
  setenv("TENSORD_CUBLASLT", "0", 1);
  Start(kPlain);
  unsetenv("TENSORD_CUBLASLT");
  EXPECT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
  EXPECT_THAT(Fake().products, SizeIs(1));
}

TEST_F(RuntimeCudaProducts, WhatOnlyCountsTilesIsTakenWithoutWorkspaceWhereItCan) {
  FakeLt().algorithms = {{.workspace_bytes = 4}, {.workspace_bytes = 0}};
  Expect(kPlain);
  EXPECT_EQ(FakeLt().workspace, nullptr);
}

TEST_F(RuntimeCudaProducts, PartialSumsAndTheOnlyAlgorithmKeepTheirWorkspace) {
  for (const std::vector<testing::FakeLtAlgorithm>& known :
       {std::vector<testing::FakeLtAlgorithm>{{.workspace_bytes = 1000}, {.workspace_bytes = 0}},
        std::vector<testing::FakeLtAlgorithm>{{.workspace_bytes = 4}}}) {
    FakeLt().Reset();
    FakeLt().algorithms = known;
    for (TensordTensor tensor : std::exchange(inputs_, {})) testing::Delete(tensor);
    Expect(kPlain);
    EXPECT_EQ(FakeLt().algorithm.workspace_bytes, known[0].workspace_bytes);
    EXPECT_NE(FakeLt().workspace, nullptr);
  }
}

TEST_F(RuntimeCudaProducts, TheFastestOfWhatTheLibraryOffersWithoutWorkspace) {
  // Its first choice fills a multiprocessor with one block.
  FakeLt().algorithms = {{.workspace_bytes = 1000, .tile = 1, .waves = 2, .option = 7},
                         {.workspace_bytes = 1000, .tile = kLtTile176x128},
                         {.tile = kLtTile128x128, .waves = 3}};
  Expect(kPlain);
  EXPECT_EQ(FakeLt().algorithm.tile, kLtTile128x128);
  EXPECT_EQ(FakeLt().workspace, nullptr);
}

TEST_F(RuntimeCudaProducts, ALargeWorkspaceGoesWithItsProduct) {
  for (const uint64_t bytes : {uint64_t{2} << 20, uint64_t{1} << 20}) {
    FakeLt().algorithms = {{.workspace_bytes = bytes}};
    v1::Artifact artifact = kPlain.Plan();
    *artifact.add_steps() = artifact.steps(0);  // the same product once more
    for (TensordTensor tensor : std::exchange(inputs_, {})) testing::Delete(tensor);
    Start(kPlain);
    program_ = Load(artifact, "unused 1\n");
    Fake().allocations = 0;
    ASSERT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
    EXPECT_EQ(Fake().allocations, bytes == uint64_t{1} << 20 ? 2 : 3);  // of them one result
  }
}

TEST_F(RuntimeCudaProducts, AWorkspaceKeepsToWhatTheCallHasToSpare) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  FakeLt().algorithms = {{.workspace_bytes = 12 * kMiB}, {.workspace_bytes = 3 * kMiB}, {}};
  struct Case {
    std::optional<uint64_t> spare;
    uint64_t wanted;
  };
  for (const auto& [spare, wanted] : std::initializer_list<Case>{
           {std::nullopt, 12 * kMiB}, {20 * kMiB, 12 * kMiB}, {7 * kMiB, 3 * kMiB}, {0, 0}}) {
    v1::Artifact artifact = kPlain.Plan();
    if (spare) artifact.mutable_steps(0)->mutable_call()->set_spare_bytes(*spare);
    for (TensordTensor tensor : std::exchange(inputs_, {})) testing::Delete(tensor);
    Start(kPlain);
    program_ = Load(artifact, "unused 1\n");
    ASSERT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
    EXPECT_EQ(FakeLt().algorithm.workspace_bytes, wanted);
  }
}

TEST_F(RuntimeCudaProducts, EqualProductsShareTheirPreparationAndOneWorkspace) {
  FakeLt().algorithms = {{.workspace_bytes = 1000}};
  v1::Artifact artifact = kPlain.Plan();
  *artifact.add_steps() = artifact.steps(0);
  Start(kPlain);
  program_ = Load(artifact, "unused 1\n");
  const int before = Fake().live_tensors;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(RunProduct(), TENSORD_OK) << tensord_last_error();
  EXPECT_EQ(FakeLt().searches, 2);  // once with a workspace and once without
  EXPECT_EQ(FakeLt().products, 6);
  EXPECT_NE(FakeLt().workspace, nullptr);
  EXPECT_EQ(Fake().allocations, 6);  // a result and a workspace each time
  EXPECT_EQ(Fake().live_tensors, before);
}

}  // namespace
}  // namespace tensord::runtime
