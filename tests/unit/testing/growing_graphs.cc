// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/testing/growing_graphs.h"

#include <algorithm>
#include <iterator>

#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace {

// Each reads the one before.
v1::Graph Chain(int nodes, v1::DeviceType device) {
  GraphBuilder g(device);
  const v1::TensorMeta meta = g.Meta({64, 64});
  const Ref x = g.Input(meta);
  Ref y = x;
  for (int i = 0; i < nodes; ++i) {
    if (i % 3 == 0) y = g.Node("aten::add.Tensor", {y, x, 1}, meta);
    if (i % 3 == 1) y = g.Node("aten::tanh", {y}, meta);
    if (i % 3 == 2) y = g.Node("aten::mul.Tensor", {y, 0.5 + i}, meta);
  }
  g.Output(y);
  return g.graph();
}

// Each has an input and an output of its own.
v1::Graph Wide(int nodes, v1::DeviceType device) {
  GraphBuilder g(device);
  const v1::TensorMeta meta = g.Meta({64, 64});
  for (int i = 0; i < nodes; ++i) g.Input(meta);
  for (int i = 0; i < nodes; ++i) {
    const Ref x{static_cast<uint32_t>(i)};
    g.Output(i % 2 == 0 ? g.Node("aten::relu", {x}, meta)
                        : g.Node("aten::mul.Tensor", {x, 2.0}, meta));
  }
  return g.graph();
}

// One concatenation of as many computed parts.
v1::Graph Cat(int nodes, v1::DeviceType device) {
  GraphBuilder g(device);
  const v1::TensorMeta meta = g.Meta({4, 16});
  const int parts = nodes - 1;
  for (int i = 0; i < parts; ++i) g.Input(meta);
  std::vector<Arg> all;
  for (int i = 0; i < parts; ++i) {
    all.push_back(g.Node("aten::relu", {Ref{static_cast<uint32_t>(i)}}, meta));
  }
  g.Output(g.Node("aten::cat", {List(all), 1}, g.Meta({4, 16 * parts})));
  return g.graph();
}

// Parts that are joined, and split again: a third of the nodes each for what makes them, takes them
// and reads them.
v1::Graph Parts(int nodes, v1::DeviceType device) {
  GraphBuilder g(device);
  const v1::TensorMeta meta = g.Meta({64});
  const int parts = nodes / 3;
  for (int i = 0; i < parts; ++i) g.Input(meta);
  std::vector<Arg> all;
  for (int i = 0; i < parts; ++i) {
    all.push_back(g.Node("aten::relu", {Ref{static_cast<uint32_t>(i)}}, meta));
  }
  const Ref joined = g.Node("aten::cat", {List(all), 0}, g.Meta({64 * parts}));
  for (int i = 0; i < parts; ++i) {
    const Ref part = g.Node("aten::slice.Tensor", {joined, 0, 64 * i, 64 * (i + 1), 1},
                            g.Meta({64}, v1::DTYPE_FLOAT32, {1}, 64 * i));
    g.Output(g.Node("aten::cumsum", {part, 0, nullptr}, meta));
  }
  g.Output(joined);
  return g.graph();
}

// Sums along rows of one tensor, each of other values.
v1::Graph Reductions(int nodes, v1::DeviceType device) {
  GraphBuilder g(device);
  const v1::TensorMeta meta = g.Meta({64, 128});
  const Ref x = g.Input(meta);
  for (int i = 0; i < nodes / 2; ++i) {
    const Ref y = g.Node("aten::mul.Tensor", {x, 0.5 + i}, meta);
    g.Output(g.Node("aten::sum.dim_IntList", {y, Ints({1}), false, nullptr}, g.Meta({64})));
  }
  return g.graph();
}

// Views of views; every eighth is an output, and a function of every other eighth is one.
v1::Graph Views(int nodes, v1::DeviceType device) {
  GraphBuilder g(device);
  const v1::TensorMeta rows = g.Meta({32, 64}),
                       columns = g.Meta({64, 32}, v1::DTYPE_FLOAT32, {1, 64});
  const Ref x = g.Input(rows);
  Ref view = g.Node("aten::tanh", {x}, rows);
  bool turned = false;
  for (int i = 1; i < nodes; ++i) {
    if (i % 8 == 7) {
      g.Output(g.Node("aten::relu", {view}, turned ? columns : rows));
      continue;
    }
    turned = !turned;
    view = g.Node("aten::transpose.int", {view, 0, 1}, turned ? columns : rows);
    if (i % 8 == 3) g.Output(view);
  }
  return g.graph();
}

// One layer of an encoder: attention of four heads and a perceptron, each behind a norm and with a
// residual. 29 nodes.
Ref Layer(GraphBuilder& g, Ref x, uint32_t weights) {
  constexpr int kRows = 32, kWidth = 64, kHeads = 4, kHead = kWidth / kHeads;
  const v1::TensorMeta rows = g.Meta({kRows, kWidth}), column = g.Meta({kRows, 1});
  const auto weight = [&](int i) { return Ref{weights + static_cast<uint32_t>(i)}; };
  const auto norm = [&](Ref from, int w) {
    return g.Node("aten::native_layer_norm", {from, Ints({kWidth}), weight(w), weight(w + 1), 1e-5},
                  {rows, column, column});
  };
  const auto transposed = [&](const Ref& from, int inputs, int outputs) {
    return g.Node("aten::t", {from}, g.Meta({inputs, outputs}, v1::DTYPE_FLOAT32, {1, inputs}));
  };
  Ref in = norm(x, 0);
  const Ref all =
      g.Node("aten::addmm", {weight(3), in, transposed(weight(2), kWidth, 3 * kWidth), 1, 1},
             g.Meta({kRows, 3 * kWidth}));
  const auto part = [&](int i) {
    const Ref slice =
        g.Node("aten::slice.Tensor", {all, 1, i * kWidth, (i + 1) * kWidth, 1},
               g.Meta({kRows, kWidth}, v1::DTYPE_FLOAT32, {3 * kWidth, 1}, i * kWidth));
    const Ref heads = g.Node(
        "aten::view", {slice, Ints({kRows, kHeads, kHead})},
        g.Meta({kRows, kHeads, kHead}, v1::DTYPE_FLOAT32, {3 * kWidth, kHead, 1}, i * kWidth));
    // Keys are transposed besides.
    if (i == 1) {
      return g.Node(
          "aten::permute", {heads, Ints({1, 2, 0})},
          g.Meta({kHeads, kHead, kRows}, v1::DTYPE_FLOAT32, {kHead, 1, 3 * kWidth}, i * kWidth));
    }
    return g.Node(
        "aten::permute", {heads, Ints({1, 0, 2})},
        g.Meta({kHeads, kRows, kHead}, v1::DTYPE_FLOAT32, {kHead, 3 * kWidth, 1}, i * kWidth));
  };
  const Ref q = part(0), k = part(1), v = part(2);
  const v1::TensorMeta squares = g.Meta({kHeads, kRows, kRows});
  const Ref scores = g.Node("aten::bmm", {q, k}, squares);
  const Ref scaled = g.Node("aten::mul.Tensor", {scores, 0.25}, squares);
  const Ref softmax = g.Node("aten::_softmax", {scaled, -1, false}, squares);
  const Ref mixed = g.Node("aten::bmm", {softmax, v}, g.Meta({kHeads, kRows, kHead}));
  const Ref back =
      g.Node("aten::permute", {mixed, Ints({1, 0, 2})},
             g.Meta({kRows, kHeads, kHead}, v1::DTYPE_FLOAT32, {kHead, kRows * kHead, 1}));
  const Ref joined =
      g.Node("aten::clone", {back, v1::MEMORY_FORMAT_CONTIGUOUS}, g.Meta({kRows, kHeads, kHead}));
  const Ref flat = g.Node("aten::view", {joined, Ints({kRows, kWidth})}, rows);
  const Ref out =
      g.Node("aten::addmm", {weight(5), flat, transposed(weight(4), kWidth, kWidth), 1, 1}, rows);
  x = g.Node("aten::add.Tensor", {x, out, 1}, rows);
  in = norm(x, 6);
  const v1::TensorMeta wide = g.Meta({kRows, 4 * kWidth});
  const Ref up =
      g.Node("aten::addmm", {weight(9), in, transposed(weight(8), kWidth, 4 * kWidth), 1, 1}, wide);
  const Ref active = g.Node("aten::gelu", {up, "none"}, wide);
  const Ref down = g.Node(
      "aten::addmm", {weight(11), active, transposed(weight(10), 4 * kWidth, kWidth), 1, 1}, rows);
  return g.Node("aten::add.Tensor", {x, down, 1}, rows);
}

v1::Graph Layers(int nodes, v1::DeviceType device) {
  GraphBuilder g(device);
  constexpr int kWidth = 64, kNodesOfLayer = 29;
  const int layers = std::max(1, nodes / kNodesOfLayer);
  const Shape weights[] = {
      {kWidth}, {kWidth}, {3 * kWidth, kWidth}, {3 * kWidth}, {kWidth, kWidth},     {kWidth},
      {kWidth}, {kWidth}, {4 * kWidth, kWidth}, {4 * kWidth}, {kWidth, 4 * kWidth}, {kWidth}};
  Ref x = g.Input({32, kWidth});
  for (int i = 0; i < layers; ++i) {
    for (const Shape& sizes : weights) g.Input(sizes);
  }
  for (int i = 0; i < layers; ++i) x = Layer(g, x, 1 + i * std::size(weights));
  g.Output(x);
  return g.graph();
}

// An LSTM, step by step; all its states are joined in the end. 16 nodes a step.
v1::Graph Recurrence(int nodes, v1::DeviceType device) {
  GraphBuilder g(device);
  constexpr int kBatch = 8, kWidth = 32, kGates = 4, kNodesOfStep = 16;
  const int steps = std::max(1, nodes / kNodesOfStep);
  const v1::TensorMeta state = g.Meta({kBatch, kWidth}), gates = g.Meta({kBatch, kGates * kWidth});
  const Ref x = g.Input({steps, kBatch, kWidth});
  Ref h = g.Input(state), c = g.Input(state);
  const Ref from_input = g.Input({kWidth, kGates * kWidth}),
            from_state = g.Input({kWidth, kGates * kWidth}), bias = g.Input({kGates * kWidth});
  std::vector<Arg> states;
  for (int t = 0; t < steps; ++t) {
    const Ref now =
        g.Node("aten::select.int", {x, 0, t},
               g.Meta({kBatch, kWidth}, v1::DTYPE_FLOAT32, {kWidth, 1}, t * kBatch * kWidth));
    const Ref a = g.Node("aten::addmm", {bias, now, from_input, 1, 1}, gates);
    const Ref b = g.Node("aten::mm", {h, from_state}, gates);
    const Ref sum = g.Node("aten::add.Tensor", {a, b, 1}, gates);
    std::vector<v1::TensorMeta> parts;
    for (int i = 0; i < kGates; ++i) {
      parts.push_back(
          g.Meta({kBatch, kWidth}, v1::DTYPE_FLOAT32, {kGates * kWidth, 1}, i * kWidth));
    }
    const Ref split = g.Node("aten::split.Tensor", {sum, kWidth, 1}, parts);
    const auto gate = [&](const char* op, uint32_t i) {
      return g.Node(op, {split.result(i)}, state);
    };
    const Ref in = gate("aten::sigmoid", 0), forget = gate("aten::sigmoid", 1),
              cell = gate("aten::tanh", 2), out = gate("aten::sigmoid", 3);
    const Ref kept = g.Node("aten::mul.Tensor", {forget, c}, state);
    const Ref taken = g.Node("aten::mul.Tensor", {in, cell}, state);
    c = g.Node("aten::add.Tensor", {kept, taken, 1}, state);
    h = g.Node("aten::mul.Tensor", {out, g.Node("aten::tanh", {c}, state)}, state);
    states.push_back(g.Node("aten::unsqueeze", {h, 0}, g.Meta({1, kBatch, kWidth})));
  }
  g.Output(g.Node("aten::cat", {List(states), 0}, g.Meta({steps, kBatch, kWidth})));
  return g.graph();
}

}  // namespace

const std::vector<GrowingGraph>& GrowingGraphs() {
  static const std::vector<GrowingGraph> graphs = {
      {"chain", Chain},           {"wide", Wide},   {"cat", Cat},       {"parts", Parts},
      {"reductions", Reductions}, {"views", Views}, {"layers", Layers}, {"recurrence", Recurrence}};
  return graphs;
}

v1::CompileJob GrowingJob(const GrowingGraph& graph, int nodes, bool cuda) {
  v1::CompileJob job;
  *job.mutable_graph() = graph.make(nodes, cuda ? v1::DEVICE_TYPE_CUDA : v1::DEVICE_TYPE_CPU);
  if (cuda) {
    v1::CudaTarget* target = job.mutable_target()->mutable_cuda();
    target->set_sm(90);
    target->set_multiprocessors(132);
    target->set_shared_bytes_per_block(227 << 10);
    target->set_l2_bytes(50 << 20);
    target->set_registers_per_multiprocessor(65536);
  } else {
    v1::CpuTarget* target = job.mutable_target()->mutable_cpu();
    target->set_isa(v1::ISA_AVX2);
    target->set_l1_bytes(32 << 10);
    target->set_l2_bytes(1 << 20);
  }
  return job;
}

}  // namespace tensord::testing
