// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/channels_last.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "compiler/graph/layout.h"
#include "compiler/ops/operators.h"
#include "compiler/rewrite/convolution.h"
#include "compiler/rewrite/inserter.h"

namespace tensord::compiler {
namespace {

bool FollowsLayout(const Node& node) { return HasTrait(FindOperator(node.op), kFollowsLayout); }

bool IsRowMajor(const TensorType& type) {
  return type.sizes.size() == 4 && type.strides == ContiguousStrides(type.sizes);
}

// What a copy of it moves.
double BytesOf(const TensorType& type) { return static_cast<double>(BytesHint(type)); }

// Nodes in sets.
class DisjointSets {
 public:
  explicit DisjointSets(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int Find(int i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void Union(int a, int b) { parent_[Find(a)] = Find(b); }

 private:
  std::vector<int> parent_;
};

class Relayout {
 public:
  explicit Relayout(Graph* graph) : graph_(*graph), editor_(graph), regions_(graph->nodes.size()) {}

  int Run() {
    if (!FindRegions()) return 0;
    Weigh();
    int count = 0;
    for (int i = 0; i < Nodes(); ++i) count += Changes(i) && ChangeResults(i);
    if (count == 0) return 0;
    for (int i = 0; i < Nodes(); ++i) FixArguments(i);
    for (ArgumentValue& output : graph_.outputs) FixOutside(&output);
    editor_.Finish();
    return count;
  }

 private:
  int Nodes() const { return static_cast<int>(is_member_.size()); }
  int NodeOf(const ArgumentValue& arg) const { return arg.value - graph_.FirstNodeValue(); }
  const TensorType& TypeOf(const ArgumentValue& arg) const { return editor_.TypeOf(ValueOf(arg)); }

  // ---- Regions: neighbours of which each can take and give channels-last tensors.

  // Whether there are any.
  bool FindRegions() {
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      is_member_.push_back(CanBeMember(graph_.nodes[i]) && editor_.MayRewrite(i));
    }
    if (std::find(is_member_.begin(), is_member_.end(), true) == is_member_.end()) return false;
    for (int i = 0; i < Nodes(); ++i) {
      if (!is_member_[i]) continue;
      ForEachValue(graph_.nodes[i].args, [&](const ArgumentValue& arg) {
        const int from = NodeOf(arg);
        if (from >= 0 && is_member_[from] && TypeOf(arg).sizes.size() == 4) {
          regions_.Union(i, from);
        }
      });
    }
    return true;
  }

  bool CanBeMember(const Node& node) const {
    if (node.outputs.empty() || node.outputs[0].sizes.size() != 4) return false;
    if (node.outputs[0].device != v1::DEVICE_TYPE_CUDA) return false;
    if (!IsRowMajor(node.outputs[0]) && !IsChannelsLast(node.outputs[0])) return false;
    const Operator* op = FindOperator(node.op);
    if (!IsLowered(op)) return HasTrait(op, kFollowsLayout);
    return !WritesArgument(op) &&
           (IsOfKind(op, OperatorKind::kPointwise) || HasTrait(op, kAnyResultLayout));
  }

  // A member takes it in any layout, or has it brought into channels-last; kernels of ours read
  // any. Others get it as in eager.
  bool TakesAnyLayout(const Node& node) const {
    if (FollowsLayout(node)) return true;
    return IsLowered(FindOperator(node.op)) && node.op != "aten::as_strided";
  }

  // ---- What a region gains, by root.

  void Weigh() {
    for (int i = 0; i < Nodes(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!editor_.MayRewrite(i)) continue;
      if (is_member_[i]) {
        double& gain = gains_[regions_.Find(i)];
        if (const auto convolution = AsConvolution(node)) gain += Gain(*convolution, node);
        const ArgumentValue& first = FirstArgument(node);
        if (FollowsLayout(node) && EntersHere(first)) gain -= BytesOf(TypeOf(first));
      }
      if (!TakesAnyLayout(node)) {
        ForEachValue(node.args, [this](const ArgumentValue& arg) { Leaves(arg); });
      }
    }
    ForEachValue(graph_.outputs, [this](const ArgumentValue& arg) { Leaves(arg); });
  }

  // What the library would transpose: arguments and results in row-major memory.
  double Gain(const Convolution& convolution, const Node& node) const {
    if (convolution.groups != 1 || !Is16BitFloat(node.outputs[0].dtype)) return 0;
    double bytes = 0;
    for (const TensorType* type : {&editor_.TypeOf(convolution.input), &node.outputs[0]}) {
      if (!IsChannelsLast(*type)) bytes += BytesOf(*type);
    }
    return bytes;
  }

  bool EntersHere(const ArgumentValue& arg) const {
    const int from = NodeOf(arg);
    return !(from >= 0 && is_member_[from]) && !IsChannelsLast(TypeOf(arg));
  }

  void Leaves(const ArgumentValue& arg) {
    const int from = NodeOf(arg);
    if (from < 0 || !is_member_[from] || !IsRowMajor(TypeOf(arg))) return;
    gains_[regions_.Find(from)] -= BytesOf(TypeOf(arg));
  }

  bool Changes(int i) {
    if (!is_member_[i]) return false;
    const auto it = gains_.find(regions_.Find(i));
    return it != gains_.end() && it->second > 0;
  }

  // ---- Changes

  bool ChangeResults(int i) {
    Node& node = graph_.nodes[i];
    bool changed = false;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      TensorType& type = node.outputs[o];
      if (!IsRowMajor(type) || IsChannelsLast(type)) continue;
      before_.emplace(ValueId(editor_.ValueOfNode(i), o), type.strides);
      type.strides = ChannelsLastStrides(type.sizes);
      changed = true;
    }
    return changed;
  }

  void FixArguments(int i) {
    Node& node = graph_.nodes[i];
    if (!TakesAnyLayout(node)) {
      for (ArgumentValue& arg : node.args) FixOutside(&arg);
      return;
    }
    if (!Changes(i) || !FollowsLayout(node)) return;
    BringIn(i, &FirstArgument(&node));
    if (node.op == "aten::convolution") BringIn(i, &Argument(&node, "weight"));
  }

  // A copy in channels-last memory, made in front of the first call that takes it, and again behind
  // writes to what was copied.
  void BringIn(int i, ArgumentValue* arg) {
    const TensorType& type = TypeOf(*arg);
    if (type.sizes.size() != 4 || IsChannelsLast(type)) return;
    const ValueId value = ValueOf(*arg);
    const auto [it, is_new] = inside_.try_emplace(value);
    Copy& copy = it->second;
    if (is_new || editor_.uses().IsWrittenBetween(value, copy.before, i)) {
      copy = {Inserter(&editor_, i).InLayout(value, ChannelsLastStrides(type.sizes)), i};
    }
    *arg = ValueArg(copy.value);
  }

  // A copy as in eager, made where the value is.
  void FixOutside(ArgumentValue* arg) {
    for (ArgumentValue& item : arg->items) FixOutside(&item);
    if (arg->kind != ArgumentValue::kValue) return;
    const ValueId value(arg->value, arg->output);
    const auto old = before_.find(value);
    if (old == before_.end()) return;
    const auto [it, is_new] = outside_.try_emplace(value);
    if (is_new) it->second = Inserter(&editor_, NodeOf(*arg) + 1).InLayout(value, old->second);
    *arg = ValueArg(it->second);
  }

  Graph& graph_;
  GraphEditor editor_;
  std::vector<bool> is_member_;  // by node
  DisjointSets regions_;
  std::map<int, double> gains_;                  // bytes that need not be transposed
  std::map<ValueId, std::vector<Expr>> before_;  // eager's strides of what changed
  // Copies at the borders.
  struct Copy {
    ValueId value;
    int before;  // the node that takes it
  };
  std::map<ValueId, Copy> inside_;
  std::map<ValueId, ValueId> outside_;
};

}  // namespace

int ChannelsLast(const v1::Target&, Graph* graph) { return Relayout(graph).Run(); }

}  // namespace tensord::compiler
