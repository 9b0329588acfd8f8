// SPDX-License-Identifier: Apache-2.0
// Batch norm in training over channels-last images on CUDA: statistics and gradients of channels
// are sums over rows whose columns are the channels. Every image is read once for them, in whole
// vectors, and what follows from a channel's sums costs no launch of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/testing/cuda_cases.h"
#include "tests/unit/testing/kernel_ir.h"

namespace tensord::testing {
namespace cuda_batch_norm_test {

using ::testing::HasSubstr;

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kBF16 = v1::DTYPE_BFLOAT16;
constexpr v1::DeviceType kCuda = v1::DEVICE_TYPE_CUDA;

struct Images {
  int count, channels, height, width;
  Shape sizes() const { return {count, channels, height, width}; }
  Shape strides() const { return {channels * height * width, 1, channels * width, channels}; }
};

v1::TensorMeta ChannelsLast(GraphBuilder& g, const Images& images, v1::DType dtype) {
  return g.Meta(images.sizes(), dtype, images.strides());
}

// relu(batch_norm(x) + y), the saved statistics and the running ones.
GraphBuilder Forward(const Images& images, v1::DType dtype) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = ChannelsLast(g, images, dtype), channel = g.Meta({images.channels});
  const Ref x = g.Input(meta), y = g.Input(meta);
  const Ref weight = g.Input(channel), bias = g.Input(channel);
  const Ref mean = g.Input(channel), var = g.Input(channel);
  const Ref norm = g.Node("aten::_native_batch_norm_legit_functional",
                          {x, weight, bias, mean, var, true, 0.1, 1e-5},
                          {meta, channel, channel, channel, channel});
  const Ref sum = g.Node("aten::add.Tensor", {norm, y, 1}, meta);
  g.Output(g.Node("aten::relu", {sum}, meta));
  for (int i = 1; i < 5; ++i) g.Output(norm.result(i));
  return g;
}

// The gradients of the image, the weight and the bias, of what relu let through.
GraphBuilder Backward(const Images& images, v1::DType dtype) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = ChannelsLast(g, images, dtype), channel = g.Meta({images.channels});
  const Ref grad = g.Input(meta), y = g.Input(meta), x = g.Input(meta);
  const Ref weight = g.Input(channel), mean = g.Input(channel), rstd = g.Input(channel);
  const Ref through = g.Node("aten::threshold_backward", {grad, y, 0}, meta);
  const Ref r = g.Node(
      "aten::native_batch_norm_backward",
      {through, x, weight, nullptr, nullptr, mean, rstd, true, 1e-5, List({true, true, true})},
      {meta, channel, channel});
  return g.Output(r).Output(r.result(1)).Output(r.result(2));
}

// The same where relu's operand is computed again: what the client makes of a norm and its relu.
// A norm without weight and bias has a scale alone.
GraphBuilder BackwardOfRelu(const Images& images, v1::DType dtype, bool affine = true) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = ChannelsLast(g, images, dtype), channel = g.Meta({images.channels});
  const v1::TensorMeta wide = ChannelsLast(g, images, kF32);
  const Ref grad = g.Input(meta), x = g.Input(meta), mean = g.Input(channel);
  const Ref rstd = g.Input(channel), weight = g.Input(channel), bias = g.Input(channel);
  const auto along = [&](const Ref& vector) {
    return g.Node("aten::view", {vector, Ints({1, -1, 1, 1})}, g.Meta({1, images.channels, 1, 1}));
  };
  const Ref scale = affine ? g.Node("aten::mul.Tensor", {rstd, weight}, channel) : rstd;
  const Ref centered = g.Node("aten::sub.Tensor", {x, along(mean), 1}, wide);
  Ref y = g.Node("aten::mul.Tensor", {centered, along(scale)}, wide);
  if (affine) y = g.Node("aten::add.Tensor", {y, along(bias), 1}, wide);
  if (dtype != kF32) {
    y = g.Node("aten::_to_copy", {y, dtype, nullptr, nullptr, nullptr, false, nullptr}, meta);
  }
  const Ref through = g.Node("aten::threshold_backward", {grad, y, 0}, meta);
  const Arg optional = affine ? Arg(weight) : Arg(nullptr);
  const Ref r =
      g.Node("aten::native_batch_norm_backward",
             {through, x, optional, nullptr, nullptr, mean, rstd, true, 1e-5,
              List({true, affine, affine})},
             {meta, affine ? channel : v1::TensorMeta(), affine ? channel : v1::TensorMeta()});
  g.Output(r);
  if (affine) g.Output(r.result(1)).Output(r.result(2));
  return g;
}

// The gradient of one norm of what two readers of relu gave: three images, of which one is made.
GraphBuilder BackwardOfTwoGradients(const Images& images, v1::DType dtype) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = ChannelsLast(g, images, dtype), channel = g.Meta({images.channels});
  const Ref grad = g.Input(meta), other = g.Input(meta), y = g.Input(meta), x = g.Input(meta);
  const Ref weight = g.Input(channel), mean = g.Input(channel), rstd = g.Input(channel);
  const Ref sum = g.Node("aten::add.Tensor", {grad, other, 1}, meta);
  const Ref through = g.Node("aten::threshold_backward", {sum, y, 0}, meta);
  const Ref r = g.Node(
      "aten::native_batch_norm_backward",
      {through, x, weight, nullptr, nullptr, mean, rstd, true, 1e-5, List({true, true, true})},
      {meta, channel, channel});
  return g.Output(r).Output(r.result(1)).Output(r.result(2));
}

// A gradient that goes two ways: through the norm of one branch and the norm of the other.
GraphBuilder TwoNorms(const Images& images, v1::DType dtype) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = ChannelsLast(g, images, dtype), channel = g.Meta({images.channels});
  const Ref grad = g.Input(meta), other = g.Input(meta), x = g.Input(meta), y = g.Input(meta);
  const Ref weight = g.Input(channel), mean = g.Input(channel), rstd = g.Input(channel);
  const Ref sum = g.Node("aten::add.Tensor", {grad, other, 1}, meta);
  for (const Ref& image : {x, y}) {
    const Ref r = g.Node(
        "aten::native_batch_norm_backward",
        {sum, image, weight, nullptr, nullptr, mean, rstd, true, 1e-5, List({true, true, true})},
        {meta, channel, channel});
    g.Output(r).Output(r.result(1)).Output(r.result(2));
  }
  return g;
}

TEST(CudaBatchNorm, Forward) {
  std::vector<CudaCase> cases{
      {"64 channels",
       Forward({3, 64, 5, 7}, kBF16),
       {"sweep w8 t256 g8 c1 column-tiles loops", "rows w8 t256 g8 c1 column-tiles loops"}},
      {"256 channels",
       Forward({2, 256, 7, 7}, kBF16),
       {"sweep w8 t256 g32 c1 column-tiles loops", "rows w8 t256 g32 c1 column-tiles loops"}},
      {"512 channels",
       Forward({2, 512, 7, 7}, kF32),
       {"sweep w4 t256 g32 c1 column-tiles loops", "rows w4 t256 g32 c1 column-tiles loops"}},
      {"24 channels",
       Forward({3, 24, 5, 7}, kBF16),
       {"sweep w8 t256 g4 c1 column-tiles loops", "rows w8 t256 g4 c1 column-tiles loops"}},
      {"odd channels",
       Forward({3, 21, 5, 7}, kF32),
       {"sweep w1 t256 g32 c1 column-tiles loops", "rows w1 t256 g32 c1 column-tiles loops"}},
  };
  for (CudaCase& c : cases) c.slack = 5e-3;
  ExpectPlansAndNumbers(cases);
}

TEST(CudaBatchNorm, Backward) {
  std::vector<CudaCase> cases{
      {"64 channels",
       Backward({3, 64, 5, 7}, kBF16),
       {"sweep w8 t256 g8 c1 column-tiles loops", "rows w8 t256 g8 c1 column-tiles loops"}},
      {"256 channels",
       Backward({2, 256, 7, 7}, kBF16),
       {"sweep w8 t256 g32 c1 column-tiles loops", "rows w8 t256 g32 c1 column-tiles loops"}},
      {"512 channels",
       Backward({2, 512, 7, 7}, kF32),
       {"sweep w4 t256 g32 c1 column-tiles loops", "rows w4 t256 g32 c1 column-tiles loops"}},
      {"two gradients",
       BackwardOfTwoGradients({3, 64, 5, 7}, kF32),
       {"sweep w4 t256 g16 c1 column-tiles loops", "rows w4 t256 g16 c1 column-tiles loops"}},
      {"two norms",
       TwoNorms({3, 128, 5, 7}, kBF16),
       {"sweep w8 t256 g16 c1 column-tiles loops", "rows w8 t256 g16 c1 column-tiles loops"}},
  };
  for (CudaCase& c : cases) c.slack = 5e-3;
  ExpectPlansAndNumbers(cases);
}

TEST(CudaBatchNorm, BackwardOfRelu) {
  std::vector<CudaCase> cases{
      {"64 channels",
       BackwardOfRelu({3, 64, 5, 7}, kBF16),
       {"sweep w8 t256 g8 c1 column-tiles loops", "rows w8 t256 g8 c1 column-tiles loops"}},
      {"256 channels",
       BackwardOfRelu({2, 256, 7, 7}, kBF16),
       {"sweep w8 t256 g32 c1 column-tiles loops", "rows w8 t256 g32 c1 column-tiles loops"}},
      {"float32",
       BackwardOfRelu({2, 512, 7, 7}, kF32),
       {"sweep w4 t256 g32 c1 column-tiles loops", "rows w4 t256 g32 c1 column-tiles loops"}},
      {"without a weight",
       BackwardOfRelu({3, 64, 5, 7}, kBF16, /*affine=*/false),
       {"sweep w8 t256 g8 c1 column-tiles loops", "rows w8 t256 g8 c1 column-tiles loops"}},
  };
  for (CudaCase& c : cases) c.slack = 5e-3;
  ExpectPlansAndNumbers(cases);
}

// The gradient and the norm's input, in both passes, of which the second writes; the gradient that
// relu lets through is in memory nowhere. Two rows are under way, and three blocks have room for
// it.
TEST(CudaBatchNorm, BackwardOfReluReadsTwoImages) {
  const CudaCase c{.name = "large", .graph = BackwardOfRelu({64, 256, 56, 56}, kBF16)};
  const auto kernels = KernelsOf(c);
  ASSERT_EQ(kernels.size(), 2u);
  for (const compiler::ir::Kernel& kernel : kernels) {
    const std::string text = ToString(kernel);
    const bool writes = &kernel == &kernels[1];
    EXPECT_EQ(CountCalls(kernel, "store", kBF16) > 0, writes) << text;
    EXPECT_EQ(CountBuffers(kernel, kBF16), writes ? 3 : 2) << text;
    EXPECT_THAT(text, HasSubstr("step (2 * step)"));
    EXPECT_EQ(kernel.cuda[0].threads, 256);
    EXPECT_EQ(kernel.cuda[0].resident, 3);
  }
}

}  // namespace cuda_batch_norm_test
}  // namespace tensord::testing
