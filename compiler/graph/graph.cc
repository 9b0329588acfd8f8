// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/graph.h"

#include <absl/strings/str_cat.h>

namespace tensord::compiler {

const TensorType& Graph::TypeOf(int value, int output) const {
  const int first_constant = static_cast<int>(inputs.size());
  if (value < first_constant) return inputs[value].tensor;
  if (value < FirstNodeValue()) return constant_types[value - first_constant];
  return nodes[value - FirstNodeValue()].outputs[output];
}

std::string Describe(const Node& node) {
  return absl::StrCat("node '", node.name, "' (", node.op, ")");
}

v1::DeviceType DeviceOf(const Graph& graph) {
  for (const GraphInput& input : graph.inputs) {
    if (input.is_tensor && input.tensor.device == v1::DEVICE_TYPE_CUDA) return v1::DEVICE_TYPE_CUDA;
  }
  for (const Node& node : graph.nodes) {
    for (const TensorType& type : node.outputs) {
      if (type.device == v1::DEVICE_TYPE_CUDA) return v1::DEVICE_TYPE_CUDA;
    }
  }
  return v1::DEVICE_TYPE_CPU;
}

}  // namespace tensord::compiler
