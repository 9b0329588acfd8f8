// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/lowered_values.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "compiler/graph/arguments.h"
#include "compiler/graph/layout.h"

namespace tensord::compiler {

LoweredValues::LoweredValues(const Graph& graph, const Uses& uses, Builder* builder,
                             std::set<ValueId> in_shapes)
    : graph_(graph),
      uses_(uses),
      builder_(*builder),
      in_shapes_(std::move(in_shapes)),
      values_(graph.FirstNodeValue() + graph.nodes.size()),
      chains_(values_.size()) {
  const int inputs = static_cast<int>(graph_.inputs.size());
  for (int i = 0; i < inputs; ++i) {
    const GraphInput& input = graph_.inputs[i];
    values_[i].resize(1);
    if (!input.is_tensor) continue;
    values_[i][0] = builder_.Input(i, input.tensor.device, input.tensor.dtype, input.tensor.sizes,
                                   input.tensor.strides, input.name);
  }
  for (size_t i = 0; i < graph_.constants.size(); ++i) {
    const TensorType& type = graph_.constant_types[i];
    const Tensor constant = builder_.ConstantBuffer(static_cast<int>(i), type.dtype, type.sizes,
                                                    type.strides, graph_.constants[i].name());
    builder_.program().buffers[constant.view()->buffer].device = type.device;
    // Made anew, so that the tensor knows its device.
    values_[inputs + i] = {builder_.AsStrided(constant, type.sizes, constant.view()->strides,
                                              constant.view()->offset)};
  }
}

void LoweredValues::SetResults(int node, std::vector<Tensor> results) {
  const int value = graph_.FirstNodeValue() + node;
  chains_[value] = ChainBefore(graph_.nodes[node]) + 1;
  values_[value] = std::move(results);
  for (int o = 0; o < static_cast<int>(values_[value].size()); ++o) {
    if (values_[value][o].defined() && MaySeeWrites({value, o})) waiting_.emplace_back(value, o);
  }
}

int LoweredValues::ChainBefore(const Node& node) const {
  int longest = 0;
  ForEachValue(node.args, [&](const ArgumentValue& arg) {
    if (!values_[arg.value][arg.output].view()) longest = std::max(longest, chains_[arg.value]);
  });
  return longest;
}

Tensor& LoweredValues::InShape(ValueId value) {
  Tensor& t = (*this)[value];
  if (!t.defined() || t.view()) return t;
  const ValueId root = uses_.Root(value);
  if (in_shapes_.count(root) == 0) return t;
  Realize(root);
  TakeView(value, root);
  return t;
}

void LoweredValues::Realize(ValueId value) {
  Tensor& t = (*this)[value];
  if (!t.view()) t = builder_.RealizeAs(t, BufferStrides(graph_.TypeOf(value)));
}

// A view that was taken of a value before that had memory, and the views behind it, anew.
void LoweredValues::TakeView(ValueId value, ValueId root) {
  if (value == root || (*this)[value].view()) return;
  const Node& node = graph_.nodes[value.first - graph_.FirstNodeValue()];
  TakeView(ValueOf(FirstArgument(node)), root);
  const Results views = FindLowering(node.op)->lower(builder_, CallOf(node));
  if (views.ok() && (*views)[value.second].view()) (*this)[value] = (*views)[value.second];
}

// ---- Writes to inputs

absl::Status LoweredValues::PrepareWrite(int node_number, ValueId target) {
  const Node& node = graph_.nodes[node_number];
  const Tensor destination = (*this)[target];
  if (!destination.view() ||
      builder_.program().buffers[destination.view()->buffer].kind != BufferKind::kInput) {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(node), ": writes to what has no memory of an input"));
  }
  const BufferId written = destination.view()->buffer;
  std::erase_if(waiting_, [&](ValueId value) {
    return uses_.LastReader(value) < node_number || !MaySeeWrites(value);
  });
  for (const ValueId& value : waiting_) {
    Tensor& t = (*this)[value];
    if (t.view()) {
      if (t.view()->buffer == written) {
        t = builder_.RealizeAs(LazyCopy(builder_, t), BufferStrides(graph_.TypeOf(value)));
      }
      continue;
    }
    const BodyReads& reads = CachedReads(value, t);
    if (reads.buffers.count(written) == 0) continue;
    const bool is_last = uses_.LastReader(value) == node_number;
    if (is_last && ReadsOnlyWhereItWrites(node, value.first, destination, reads)) continue;
    t = builder_.RealizeAs(t, BufferStrides(graph_.TypeOf(value)));
  }
  return absl::OkStatus();
}

bool LoweredValues::MaySeeWrites(ValueId value) const {
  const Tensor& t = values_[value.first][value.second];
  if (!t.view()) return true;
  const BufferInfo& buffer = builder_.program().buffers[t.view()->buffer];
  return buffer.kind == BufferKind::kInput && IsCopyInEager(value.first);
}

bool LoweredValues::IsCopyInEager(int value) const {
  if (value < graph_.FirstNodeValue()) return false;
  const Operator* op = FindOperator(graph_.nodes[value - graph_.FirstNodeValue()].op);
  return IsLowered(op) && op->kind != OperatorKind::kView && !WritesArgument(op);
}

// x.copy_(f(x)) needs no buffer when each element of the result reads only its own place.
bool LoweredValues::ReadsOnlyWhereItWrites(const Node& node, int source, const Tensor& destination,
                                           const BodyReads& reads) const {
  if (node.op != "aten::copy_") return false;
  const ValueId from = ValueOf(Argument(node, "src"));
  if (from.first != source) return false;
  if (!SameSizes(graph_.TypeOf(from).sizes, destination.sizes())) return false;
  Expr place = destination.view()->offset;
  const std::vector<Expr> index = LoopIndex(destination.sizes());
  for (size_t d = 0; d < index.size(); ++d) place += index[d] * destination.view()->strides[d];
  const int parts = destination.view()->is_complex ? 2 : 1;
  return std::all_of(reads.indices.begin(), reads.indices.end(), [&](const auto& load) {
    if (load.first != destination.view()->buffer) return true;
    return load.second == place * parts || load.second == place * parts + (parts - 1);
  });
}

const BodyReads& LoweredValues::CachedReads(ValueId value, const Tensor& t) {
  const auto [it, is_new] = reads_.try_emplace(value);
  if (is_new) it->second = ReadsOf(t);
  return it->second;
}

}  // namespace tensord::compiler
