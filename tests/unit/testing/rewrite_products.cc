// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/testing/rewrite_products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "compiler/decompose/lower_graph.h"
#include "tests/unit/testing/interpreter.h"

namespace tensord::testing {
namespace {

// The library's products, in double precision: {a, b} or {added, a, b}, alpha and beta 1.
std::vector<HostTensor> LibraryProduct(const compiler::ExternOp& op, std::vector<HostTensor> args) {
  const bool adds = args.size() == 3;
  const HostTensor &a = args[adds ? 1 : 0], &b = args[adds ? 2 : 1];
  const size_t rank = a.sizes.size();
  const int64_t batch = rank == 3 ? a.sizes[0] : 1, m = a.sizes[rank - 2], k = a.sizes[rank - 1],
                n = b.sizes[rank - 1];
  EXPECT_EQ(b.sizes[rank - 2], k) << op.op;
  const std::vector<double> x = a.Values(), y = b.Values();
  const std::vector<double> added = adds ? args[0].Values() : std::vector<double>{0};
  // The index into `added` of an element of the result, by broadcasting.
  const auto place = [&](int64_t z, int64_t i, int64_t j) {
    if (!adds) return int64_t{0};
    const std::vector<int64_t> index{z, i, j};
    int64_t at = 0;
    const size_t have = args[0].sizes.size();
    for (size_t d = 0; d < have; ++d) {
      const int64_t size = args[0].sizes[d];
      at = at * size + (size == 1 ? 0 : index[3 - have + d]);
    }
    return at;
  };
  const bool gelu =
      op.op == "aten::_addmm_activation" && std::get<v1::Argument>(op.args.back().value).boolean();
  std::vector<double> values;
  for (int64_t z = 0; z < batch; ++z) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = added[place(z, i, j)];
        for (int64_t l = 0; l < k; ++l) sum += x[(z * m + i) * k + l] * y[(z * k + l) * n + j];
        if (op.op == "aten::_addmm_activation") {
          const double inner = std::sqrt(2 / std::numbers::pi) * (sum + 0.044715 * sum * sum * sum);
          sum = gelu ? 0.5 * sum * (1 + std::tanh(inner)) : std::max(sum, 0.0);
        }
        values.push_back(sum);
      }
    }
  }
  std::vector<int64_t> sizes(a.sizes);
  sizes[rank - 1] = n;
  return {MakeTensor(sizes, values, a.dtype)};
}

// Row-major inputs of small numbers; integers stay small enough to be indices of two rows.
std::vector<HostTensor> SmallInputs(const compiler::Graph& graph) {
  std::vector<HostTensor> inputs;
  int64_t seed = 1;
  for (const compiler::GraphInput& input : graph.inputs) {
    std::vector<int64_t> sizes, strides;
    int64_t count = 1;
    for (const auto& size : input.tensor.sizes) sizes.push_back(sym::Hint(size));
    for (const auto& stride : input.tensor.strides) strides.push_back(sym::Hint(stride));
    for (const int64_t size : sizes) count *= size;
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) {
      seed = (seed * 1103515 + 12345) & 0xffffff;
      values.push_back(static_cast<double>((seed >> 8) % 17 - 8) / 8.0);
    }
    inputs.push_back(WithStrides(MakeTensor(sizes, values, input.tensor.dtype), strides));
  }
  return inputs;
}

// The outputs' values; their strides must be those that eager promises.
std::vector<std::vector<double>> Outputs(const compiler::Graph& graph) {
  const compiler::Program program = MustLower(graph);
  InterpreterOptions options;
  options.external = LibraryProduct;
  std::vector<HostTensor> inputs = SmallInputs(graph);
  std::vector<std::vector<double>> values;
  const std::vector<HostTensor> outputs = Interpret(program, inputs, options);
  for (size_t o = 0; o < outputs.size(); ++o) {
    values.push_back(outputs[o].Values());
    const compiler::ArgumentValue& arg = graph.outputs[o];
    const compiler::TensorType& type = graph.TypeOf(arg.value, arg.output);
    for (size_t d = 0; d < type.strides.size(); ++d) {
      if (outputs[o].sizes[d] < 2) continue;
      EXPECT_EQ(outputs[o].strides[d], sym::Hint(type.strides[d]));
    }
  }
  return values;
}

}  // namespace

compiler::Program MustLower(const compiler::Graph& graph) {
  auto program = compiler::LowerGraph(graph);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  const absl::Status sound = compiler::VerifyProgram(*program);
  EXPECT_TRUE(sound.ok()) << sound;
  return *std::move(program);
}

void ExpectSameOutputs(const compiler::Graph& before, const compiler::Graph& after,
                       double tolerance) {
  const auto expected = Outputs(before), found = Outputs(after);
  ASSERT_EQ(expected.size(), found.size());
  for (size_t o = 0; o < expected.size(); ++o) {
    ASSERT_EQ(expected[o].size(), found[o].size());
    for (size_t i = 0; i < expected[o].size(); ++i) {
      ASSERT_NEAR(expected[o][i], found[o][i], tolerance * (1 + std::abs(expected[o][i])))
          << "output " << o << " element " << i;
    }
  }
}

std::vector<std::string> LibraryCalls(const compiler::Program& program) {
  std::vector<std::string> calls;
  for (const auto& operation : program.operations) {
    const auto* call = std::get_if<compiler::ExternOp>(&operation);
    if (call == nullptr) continue;
    std::string text = call->op;
    for (const compiler::ExternArg& arg : call->args) {
      const auto* view = std::get_if<compiler::BufferView>(&arg.value);
      if (view == nullptr) continue;
      text += " ";
      for (size_t d = 0; d < view->sizes.size(); ++d) {
        text += (d == 0 ? "" : "x") + sym::ToString(view->sizes[d]) + "/" +
                sym::ToString(view->strides[d]);
      }
    }
    calls.push_back(text);
  }
  return calls;
}

int LoopOperations(const compiler::Program& program) {
  int count = 0;
  for (const auto& operation : program.operations) {
    count += std::holds_alternative<compiler::LoopOp>(operation) ? 1 : 0;
  }
  return count;
}

}  // namespace tensord::testing
