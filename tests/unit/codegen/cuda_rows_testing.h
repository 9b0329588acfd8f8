// SPDX-License-Identifier: Apache-2.0
// Graphs of rows for cuda_rows_test.cc, in its namespace: softmax, norms, reductions, losses and
// their gradients.
#ifndef TENSORD_TESTS_UNIT_CODEGEN_CUDA_ROWS_TESTING_H_
#define TENSORD_TESTS_UNIT_CODEGEN_CUDA_ROWS_TESTING_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace cuda_rows_test {

inline constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kBF16 = v1::DTYPE_BFLOAT16;
inline constexpr v1::DType kI64 = v1::DTYPE_INT64;
inline constexpr int kMean = 1;

// Rows in memory: `stride` elements apart, 0 for dense ones.
struct Rows {
  Dim rows, columns;
  v1::DType dtype = kF32;
  int stride = 0;
  std::vector<int> hints = {};  // of symbolic sizes

  Shape sizes() const { return {rows, columns}; }
  Shape strides() const { return stride == 0 ? Shape{} : Shape{stride, 1}; }
};
// A size that is known when the kernel runs.
inline Dim Symbol(uint32_t number) {
  v1::SymExpr e;
  e.set_symbol(number);
  return Dim(std::move(e));
}
inline GraphBuilder Cuda(const Rows& r) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  for (int hint : r.hints) g.Symbol(hint);
  return g;
}
inline Ref Input(GraphBuilder& g, const Rows& x) {
  return g.Input(x.sizes(), x.dtype, x.strides());
}
// Results take the strides of the inputs: what is behind a row is zero.
inline void Output(GraphBuilder& g, Ref y, const Rows& x) {
  if (x.stride == 0) {
    g.Output(y);
    return;
  }
  g.Output(g.Node("tensord::zero_padded", {y, Ints({x.rows, x.stride})},
                  g.Meta({x.rows, x.stride}, x.dtype)));
}

inline GraphBuilder Softmax(const std::string& op, const Rows& r) {
  GraphBuilder g = Cuda(r);
  const Ref x = Input(g, r);
  Output(g, g.Node(op, {x, -1, false}, g.Meta(r.sizes(), r.dtype)), r);
  return g;
}
inline GraphBuilder Softmax(const Rows& r) { return Softmax("aten::_softmax", r); }
// Of 30 tanh(x / 30), as a language model bounds its logits.
inline GraphBuilder OfBounded(const std::string& op, const Rows& r) {
  GraphBuilder g = Cuda(r);
  const v1::TensorMeta meta = g.Meta(r.sizes(), r.dtype);
  const Ref small = g.Node("aten::div.Tensor", {Input(g, r), 30}, meta);
  const Ref bounded = g.Node("aten::mul.Tensor", {g.Node("aten::tanh", {small}, meta), 30}, meta);
  return g.Output(g.Node(op, {bounded, -1, true}, g.Meta(r.sizes())));
}
inline GraphBuilder LogSoftmax(const Rows& r) { return Softmax("aten::_log_softmax", r); }

inline GraphBuilder LayerNorm(const Rows& r) {
  GraphBuilder g = Cuda(r);
  const Ref x = Input(g, r), weight = g.Input({r.columns}, r.dtype);
  const Ref bias = g.Input({r.columns}, r.dtype);
  const Ref y = g.Node("aten::native_layer_norm", {x, Ints({r.columns}), weight, bias, 1e-5},
                       {g.Meta(r.sizes(), r.dtype), g.Meta({r.rows, 1}), g.Meta({r.rows, 1})});
  Output(g, y, r);
  g.Output(y.result(1)).Output(y.result(2));
  return g;
}
inline GraphBuilder RmsNorm(const Rows& r) {
  GraphBuilder g = Cuda(r);
  const Ref x = Input(g, r), weight = g.Input({r.columns}, r.dtype);
  const Ref y = g.Node("aten::_fused_rms_norm", {x, Ints({r.columns}), weight, 1e-6},
                       {g.Meta(r.sizes(), r.dtype), g.Meta({r.rows, 1})});
  Output(g, y, r);
  g.Output(y.result(1));
  return g;
}
inline GraphBuilder Scaled(const Rows& r) {
  GraphBuilder g = Cuda(r);
  const Ref x = Input(g, r), scale = g.Input({r.rows, 1}, r.dtype);
  g.Output(g.Node("aten::mul.Tensor", {x, scale}, g.Meta(r.sizes(), r.dtype)));
  return g;
}
// Rows of one tensor, doubled, into two others.
inline GraphBuilder PutTwice(int rows, int columns) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref y = g.Input({rows, columns}, kBF16);
  std::vector<std::pair<Ref, Ref>> places;
  for (int i = 0; i < 2; ++i) {
    const Ref into = g.Input({rows, columns}, kBF16);
    places.emplace_back(into, g.Input({rows}, kI64));
  }
  const Ref doubled = g.Node("aten::mul.Scalar", {y, 2.0}, g.Meta({rows, columns}, kBF16));
  for (const auto& [into, where] : places) {
    g.Output(g.Node("aten::index_put", {into, List({where}), doubled, false},
                    g.Meta({rows, columns}, kBF16)));
  }
  return g;
}
// Every row begins with what were its last elements.
inline Ref Rolled(GraphBuilder& g, Ref x, const Rows& r) {
  return g.Node("aten::roll", {x, Ints({3}), Ints({1})}, g.Meta(r.sizes(), r.dtype));
}
// Rows of one table, found through two tensors by the numbers of a third.
inline GraphBuilder RowsOfTable(int rows, int columns, bool rolled = false) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref table = g.Input({9, columns}), numbers = g.Input({rows}, kI64);
  const std::vector<Ref> through{g.Input({9}, kI64), g.Input({9}, kI64)};
  for (int i = 0; i < 2; ++i) {
    const Ref row =
        g.Node("aten::index.Tensor", {through[i], List({numbers})}, g.Meta({rows}, kI64));
    Ref found = g.Node("aten::index.Tensor", {table, List({row})}, g.Meta({rows, columns}));
    if (rolled) found = Rolled(g, found, {rows, columns});
    g.Output(g.Node("aten::mul.Scalar", {found, 2.0 + i}, g.Meta({rows, columns})));
  }
  return g;
}
inline GraphBuilder Reduced(const std::string& op, const Rows& r) {
  GraphBuilder g = Cuda(r);
  const Ref x = Input(g, r);
  std::vector<Arg> args{x, Ints({-1}), false};
  if (op != "aten::amax") args.push_back(nullptr);
  g.Output(g.Node(op, args, g.Meta({r.rows}, r.dtype)));
  return g;
}
inline GraphBuilder Sum(const Rows& r) { return Reduced("aten::sum.dim_IntList", r); }
inline GraphBuilder Mean(const Rows& r) { return Reduced("aten::mean.dim", r); }
inline GraphBuilder Max(const Rows& r) { return Reduced("aten::amax", r); }
inline GraphBuilder ArgMax(const Rows& r) {
  GraphBuilder g = Cuda(r);
  const Ref x = Input(g, r);
  g.Output(g.Node("aten::argmax", {x, -1, false}, g.Meta({r.rows}, kI64)));
  return g;
}

// The mean loss; with log_softmax, for the gradient.
inline GraphBuilder CrossEntropy(const Rows& r, bool keeps = true) {
  GraphBuilder g = Cuda(r);
  const Ref x = Input(g, r), target = g.Input({r.rows}, kI64);
  const Ref y = g.Node("aten::_log_softmax", {x, 1, false}, g.Meta(r.sizes(), r.dtype));
  const Ref loss = g.Node("aten::nll_loss_forward", {y, target, nullptr, kMean, -100},
                          {g.Meta(Shape{}, r.dtype), g.Meta(Shape{}, r.dtype)});
  if (keeps) Output(g, y, r);
  g.Output(loss).Output(loss.result(1));
  return g;
}
// The loss's gradient; `factor` other than 1 keeps its two steps apart.
inline GraphBuilder CrossEntropyBackward(const Rows& r, double factor = 1) {
  GraphBuilder g = Cuda(r);
  const Ref grad = g.Input(Shape{}, r.dtype), y = Input(g, r), target = g.Input({r.rows}, kI64);
  const Ref count = g.Input(Shape{}, r.dtype);
  Ref loss = g.Node("aten::nll_loss_backward", {grad, y, target, nullptr, kMean, -100, count},
                    g.Meta(r.sizes(), r.dtype));
  if (factor != 1) {
    loss = g.Node("aten::mul.Scalar", {loss, factor}, g.Meta(r.sizes(), r.dtype));
  }
  Output(
      g,
      g.Node("aten::_log_softmax_backward_data", {loss, y, 1, r.dtype}, g.Meta(r.sizes(), r.dtype)),
      r);
  return g;
}
// The loss's gradient from the logits and what a forward pass saved of their rows. `saved`: the
// graph computes them itself.
inline GraphBuilder GradientOfStatistics(const Rows& r, bool saved = true, bool rolled = false) {
  GraphBuilder g = Cuda(r);
  const Ref grad = g.Input(Shape{}), count = g.Input(Shape{});
  Ref x = Input(g, r);
  const Ref target = g.Input({r.rows}, kI64);
  const v1::TensorMeta of_rows = g.Meta({r.rows, 1}), meta = g.Meta(r.sizes());
  Ref max{}, logarithm{};
  if (saved) {
    max = g.Input(of_rows);
    logarithm = g.Input(of_rows);
  } else {
    max = g.Node("tensord::softmax_statistics", {x, 1}, {of_rows, of_rows});
    logarithm = max.result(1);
    g.Output(max).Output(logarithm);
  }
  if (rolled) x = Rolled(g, x, r);
  const Ref wide =
      g.Node("aten::_to_copy", {x, kF32, nullptr, nullptr, nullptr, false, nullptr}, meta);
  const Ref below = g.Node("aten::sub.Tensor", {wide, max, 1}, meta);
  const Ref y = g.Node("aten::sub.Tensor", {below, logarithm, 1}, meta);
  const Ref loss =
      g.Node("aten::nll_loss_backward", {grad, y, target, nullptr, kMean, -100, count}, meta);
  const Ref result =
      g.Node("aten::_log_softmax_backward_data", {loss, y, 1, r.dtype}, g.Meta(r.sizes(), r.dtype));
  g.Output(result);
  return g;
}
// Of a gradient that is cheap to compute again.
inline GraphBuilder LogSoftmaxBackward(const Rows& r) {
  GraphBuilder g = Cuda(r);
  const Ref grad = Input(g, r), y = Input(g, r);
  const Ref half = g.Node("aten::mul.Scalar", {grad, 0.5}, g.Meta(r.sizes(), r.dtype));
  Output(
      g,
      g.Node("aten::_log_softmax_backward_data", {half, y, 1, r.dtype}, g.Meta(r.sizes(), r.dtype)),
      r);
  return g;
}

// x + dropout(y), then LayerNorm; with the mask.
inline GraphBuilder DropoutLayerNorm(const Rows& r) {
  GraphBuilder g = Cuda(r);
  const Ref x = Input(g, r), y = Input(g, r), seed = g.Input(Shape{}, kI64);
  const Ref weight = g.Input({r.columns}, r.dtype), bias = g.Input({r.columns}, r.dtype);
  const v1::TensorMeta meta = g.Meta(r.sizes(), r.dtype);
  const Ref words =
      g.Node("tensord::philox_uniform", {seed, Ints(r.sizes()), kF32, v1::DEVICE_TYPE_CUDA, 7},
             g.Meta(r.sizes()));
  const Ref keep = g.Node("aten::ge.Scalar", {words, 0.25}, g.Meta(r.sizes(), v1::DTYPE_BOOL));
  const Ref kept = g.Node("aten::mul.Tensor", {y, keep}, meta);
  const Ref scaled = g.Node("aten::mul.Scalar", {kept, 1 / 0.75}, meta);
  const Ref sum = g.Node("aten::add.Tensor", {x, scaled, 1}, meta);
  const Ref norm = g.Node("aten::native_layer_norm", {sum, Ints({r.columns}), weight, bias, 1e-5},
                          {meta, g.Meta({r.rows, 1}), g.Meta({r.rows, 1})});
  g.Output(norm).Output(keep).Output(sum);
  return g;
}

}  // namespace cuda_rows_test
}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_CODEGEN_CUDA_ROWS_TESTING_H_
