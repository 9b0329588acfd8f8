// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/testing/rewrite_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "compiler/decompose/lower_graph.h"
#include "compiler/graph/editor.h"
#include "compiler/graph/verify.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace {

using compiler::BufferView;
using compiler::ExternArgList;
using compiler::ExternOp;
using compiler::Graph;
using Numbers = std::vector<int64_t>;

// Nodes that the outputs need.
std::set<int> Live(const Graph& graph) {
  std::set<int> live;
  const auto mark = [&](const compiler::ArgumentValue& arg) {
    if (arg.value >= graph.FirstNodeValue()) live.insert(arg.value - graph.FirstNodeValue());
  };
  compiler::ForEachValue(graph.outputs, mark);
  for (int i = static_cast<int>(graph.nodes.size()) - 1; i >= 0; --i) {
    if (live.count(i) > 0) compiler::ForEachValue(graph.nodes[i].args, mark);
  }
  return live;
}

bool IsTensor(const ExternArgList& args, size_t i) {
  return std::holds_alternative<BufferView>(args[i].value);
}

Numbers NumbersOf(const compiler::ExternArg& arg) {
  Numbers out;
  for (const compiler::ExternArg& item : std::get<ExternArgList>(arg.value)) {
    out.push_back(std::get<v1::Argument>(item.value).integer().constant());
  }
  if (out.size() == 1) out.push_back(out[0]);  // for both dimensions
  return out;
}

double At(const HostTensor& t, const Numbers& index) {
  int64_t place = t.offset;
  for (size_t d = 0; d < index.size(); ++d) place += index[d] * t.strides[d];
  return t.storage.at(place).real;
}

// Where the arguments of each form are; -1: it has none.
struct Form {
  int bias, z, stride, padding, dilation, groups;
  bool relu;
};
const std::map<std::string, Form> kForms = {
    {"aten::convolution", {2, -1, 3, 4, 5, 8, false}},
    {"aten::cudnn_convolution_relu", {2, -1, 3, 4, 5, 6, true}},
    {"aten::cudnn_convolution_add_relu", {4, 2, 5, 6, 7, 8, true}},
};

HostTensor Convolve(const ExternOp& op, const std::vector<HostTensor>& tensors) {
  const Form& form = kForms.at(op.op);
  const Numbers stride = NumbersOf(op.args[form.stride]);
  const Numbers padding = NumbersOf(op.args[form.padding]);
  const Numbers dilation = NumbersOf(op.args[form.dilation]);
  const int64_t groups = std::get<v1::Argument>(op.args[form.groups].value).integer().constant();
  const HostTensor &x = tensors[0], &w = tensors[1];
  const HostTensor* z = form.z >= 0 ? &tensors[2] : nullptr;
  const HostTensor* bias = IsTensor(op.args, form.bias) ? &tensors.back() : nullptr;
  TENSORD_CHECK(x.sizes.size() == 4, "two dimensions only");
  TENSORD_CHECK(bias == nullptr || bias->dtype == x.dtype, "a bias of another dtype");
  Numbers sizes{x.sizes[0], w.sizes[0], 0, 0};
  for (int d = 0; d < 2; ++d) {
    sizes[d + 2] =
        (x.sizes[d + 2] + 2 * padding[d] - dilation[d] * (w.sizes[d + 2] - 1) - 1) / stride[d] + 1;
  }
  const int64_t outputs = w.sizes[0] / groups;
  std::vector<double> values;
  for (int64_t n = 0; n < sizes[0]; ++n) {
    for (int64_t o = 0; o < sizes[1]; ++o) {
      for (int64_t i = 0; i < sizes[2]; ++i) {
        for (int64_t j = 0; j < sizes[3]; ++j) {
          double sum = bias != nullptr ? At(*bias, {o}) : 0;
          if (z != nullptr) sum += At(*z, {n, o, i, j});
          for (int64_t c = 0; c < w.sizes[1]; ++c) {
            for (int64_t p = 0; p < w.sizes[2]; ++p) {
              for (int64_t q = 0; q < w.sizes[3]; ++q) {
                const int64_t y = i * stride[0] + p * dilation[0] - padding[0];
                const int64_t v = j * stride[1] + q * dilation[1] - padding[1];
                if (y < 0 || v < 0 || y >= x.sizes[2] || v >= x.sizes[3]) continue;
                sum += At(x, {n, o / outputs * w.sizes[1] + c, y, v}) * At(w, {o, c, p, q});
              }
            }
          }
          values.push_back(form.relu ? std::max(0.0, sum) : sum);
        }
      }
    }
  }
  return MakeTensor(sizes, values, x.dtype);
}

HostTensor Multiply(const ExternOp& op, const std::vector<HostTensor>& tensors) {
  const bool adds = op.op != "aten::mm";
  const HostTensor &a = tensors[adds ? 1 : 0], &b = tensors[adds ? 2 : 1];
  std::vector<double> values;
  for (int64_t i = 0; i < a.sizes[0]; ++i) {
    for (int64_t j = 0; j < b.sizes[1]; ++j) {
      double sum = 0;
      if (adds) sum = tensors[0].sizes.size() == 1 ? At(tensors[0], {j}) : At(tensors[0], {i, j});
      for (int64_t k = 0; k < a.sizes[1]; ++k) sum += At(a, {i, k}) * At(b, {k, j});
      values.push_back(op.op == "aten::_addmm_activation" ? std::max(0.0, sum) : sum);  // no GELU
    }
  }
  return MakeTensor({a.sizes[0], b.sizes[1]}, values, a.dtype);
}

// Of a matrix: plus a number for each column, or ReLU.
HostTensor MapMatrix(const std::vector<HostTensor>& tensors) {
  const HostTensor& a = tensors[0];
  std::vector<double> values = a.Values();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto column = static_cast<int64_t>(i) % a.sizes[1];
    values[i] =
        tensors.size() > 1 ? values[i] + At(tensors[1], {column}) : std::max(0.0, values[i]);
  }
  return MakeTensor(a.sizes, values, a.dtype);
}

// Of the image, the weights and the bias of a convolution with stride and one group; those that the
// mask wants.
std::vector<HostTensor> ConvolveBackward(const ExternOp& op,
                                         const std::vector<HostTensor>& tensors) {
  const Numbers stride = NumbersOf(op.args[4]);
  const HostTensor &g = tensors[0], &x = tensors[1], &w = tensors[2];
  std::vector<double> image(x.Values().size()), weight(w.Values().size()), bias(w.sizes[0]);
  const auto at = [](const HostTensor& t, int64_t a, int64_t b, int64_t c, int64_t d) {
    return static_cast<size_t>(((a * t.sizes[1] + b) * t.sizes[2] + c) * t.sizes[3] + d);
  };
  for (int64_t n = 0; n < g.sizes[0]; ++n) {
    for (int64_t o = 0; o < w.sizes[0]; ++o) {
      for (int64_t i = 0; i < g.sizes[2]; ++i) {
        for (int64_t j = 0; j < g.sizes[3]; ++j) {
          const double of = At(g, {n, o, i, j});
          bias[static_cast<size_t>(o)] += of;
          for (int64_t c = 0; c < w.sizes[1]; ++c) {
            for (int64_t p = 0; p < w.sizes[2]; ++p) {
              for (int64_t q = 0; q < w.sizes[3]; ++q) {
                const int64_t y = i * stride[0] + p, v = j * stride[1] + q;
                weight[at(w, o, c, p, q)] += of * At(x, {n, c, y, v});
                image[at(x, n, c, y, v)] += of * At(w, {o, c, p, q});
              }
            }
          }
        }
      }
    }
  }
  std::vector<HostTensor> results;
  if (op.results[0] >= 0) results.push_back(MakeTensor(x.sizes, image, x.dtype));
  if (op.results[1] >= 0) results.push_back(MakeTensor(w.sizes, weight, w.dtype));
  if (op.results[2] >= 0) results.push_back(MakeTensor({w.sizes[0]}, bias, w.dtype));
  return results;
}

std::vector<HostTensor> Call(const ExternOp& op, const std::vector<HostTensor>& tensors) {
  if (kForms.count(op.op) > 0) return {Convolve(op, tensors)};
  if (op.op == "aten::convolution_backward") return ConvolveBackward(op, tensors);
  if (op.op == "aten::add" || op.op == "aten::relu") return {MapMatrix(tensors)};
  TENSORD_CHECK(op.op == "aten::mm" || op.op == "aten::addmm" || op.op == "aten::_addmm_activation",
                "unknown library call " + op.op);
  return {Multiply(op, tensors)};
}

}  // namespace

Shape ChannelsLast(const Shape& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3], sizes[1]};
}

Graph Imported(GraphBuilder& g) {
  absl::StatusOr<Graph> graph = VerifiedImport(g.graph());
  TENSORD_CHECK(graph.ok(), graph.status().ToString());
  return *std::move(graph);
}

std::vector<std::string> RunRewrites(const v1::Target& target, Graph* graph) {
  std::vector<std::string> notes;
  for (const compiler::GraphRewrite& pass : compiler::RewritePasses()) {
    if (!pass.IsFor(target)) continue;
    const int count = pass.run(target, graph);
    if (count > 0) notes.push_back(std::string(pass.name) + ": " + std::to_string(count));
    const absl::Status sound = compiler::VerifyGraph(*graph);
    EXPECT_TRUE(sound.ok()) << pass.name << ": " << sound;
  }
  return notes;
}

v1::Target CudaTarget() {
  v1::Target target;
  target.mutable_cuda()->set_sm(90);
  return target;
}

std::vector<std::string> OpsOf(const Graph& graph) {
  std::vector<std::string> ops;
  for (const int i : Live(graph)) ops.push_back(graph.nodes[i].op);
  return ops;
}

const compiler::Node& NodeOf(const Graph& graph, const std::string& op) {
  const compiler::Node* found = nullptr;
  for (const int i : Live(graph)) {
    if (graph.nodes[i].op == op) found = &graph.nodes[i];
  }
  TENSORD_CHECK(found != nullptr, "no such node: " + op);
  return *found;
}

std::vector<HostTensor> SomeInputs(const Graph& graph, const std::vector<int>& positive) {
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const compiler::TensorType& type = graph.inputs[i].tensor;
    Numbers sizes, strides;
    for (const auto& size : type.sizes) sizes.push_back(sym::Hint(size));
    for (const auto& stride : type.strides) strides.push_back(sym::Hint(stride));
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    const bool is_positive = std::count(positive.begin(), positive.end(), i) > 0;
    std::vector<double> values;
    for (int64_t k = 0; k < count; ++k) {
      const double value = std::sin(0.7 * static_cast<double>(k) + 1.3 * static_cast<double>(i));
      values.push_back(is_positive ? 0.5 + std::abs(value) : value);
    }
    inputs.push_back(WithStrides(MakeTensor(sizes, values, type.dtype), strides));
  }
  return inputs;
}

std::vector<HostTensor> RunGraph(const Graph& graph, std::vector<HostTensor> inputs) {
  const absl::StatusOr<compiler::Program> program = compiler::LowerGraph(graph);
  TENSORD_CHECK(program.ok(), program.status().ToString());
  const absl::Status sound = compiler::VerifyProgram(*program);
  EXPECT_TRUE(sound.ok()) << sound;
  return Interpret(*program, inputs, {.external = Call});
}

void ExpectSameResults(const Graph& before, const Graph& after,
                       const std::vector<HostTensor>& inputs, double tolerance) {
  const std::vector<HostTensor> expected = RunGraph(before, inputs), got = RunGraph(after, inputs);
  ASSERT_EQ(expected.size(), got.size());
  for (size_t o = 0; o < got.size(); ++o) {
    EXPECT_EQ(got[o].dtype, expected[o].dtype);
    ASSERT_EQ(got[o].sizes, expected[o].sizes);
    EXPECT_EQ(got[o].strides, expected[o].strides);
    const std::vector<double> want = expected[o].Values(), have = got[o].Values();
    double largest = 0;
    for (const double value : want) largest = std::max(largest, std::abs(value));
    EXPECT_GT(largest, 0) << "output " << o << " says nothing";
    for (size_t k = 0; k < want.size(); ++k) {
      ASSERT_NEAR(have[k], want[k], tolerance * largest) << "output " << o << ", element " << k;
    }
  }
}

}  // namespace tensord::testing
