// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/attention_chains.h"

#include <absl/strings/string_view.h>

#include <algorithm>
#include <set>

#include "compiler/graph/arguments.h"
#include "compiler/ops/operators.h"

namespace tensord::compiler {
namespace {

constexpr absl::string_view kProducts = "tensord::attention_products";

// What kernels of attention have tiles and rows of.
constexpr int64_t kTile = 64, kMostColumns = 128;

// How many of an operator's first arguments are functions of scores, and the products in them.
struct EndRule {
  absl::string_view op;
  int functions, products;
};
constexpr EndRule kEnds[] = {
    {"tensord::attention", 2, 1},
    {"tensord::attention_query_gradient", 2, 2},
    {"tensord::attention_key_gradients", 4, 2},
};

const EndRule* RuleOf(const Node& node) {
  const auto* rule = std::ranges::find(kEnds, node.op, &EndRule::op);
  return rule == std::end(kEnds) ? nullptr : rule;
}

// A body of its operands' elements, whoever reads it.
bool IsOfElements(const Node& node, const LoweringRules& rules) {
  const Operator* op = FindOperator(node.op);
  if (op == nullptr || WritesArgument(op) || ActsBesides(op) || node.outputs.size() != 1) {
    return false;
  }
  const bool kind = op->kind == OperatorKind::kPointwise || op->kind == OperatorKind::kView ||
                    op->kind == OperatorKind::kCreation || op->kind == OperatorKind::kIndexing;
  return kind && !rules.MayBeCall(node) && rules.LoweringOf(node) != nullptr &&
         rules.CanGenerate(node);
}

class Finder {
 public:
  Finder(const Graph& graph, const Uses& uses, const LoweringRules& rules)
      : graph_(graph), uses_(uses), rules_(rules), first_(graph.FirstNodeValue()) {}

  void Run(std::vector<bool>* lowered, std::vector<bool>* lazy) {
    const int count = static_cast<int>(graph_.nodes.size());
    std::set<int> ends;
    for (int i = 0; i < count; ++i) {
      if (uses_.Runs(i) && RuleOf(graph_.nodes[i]) != nullptr) ends.insert(i);
    }
    if (ends.empty()) return;
    const std::vector<bool> only_read = OnlyRead();
    // What an end that falls shares with others is in memory, so that these fall, too.
    for (bool changed = true; changed;) {
      changed = false;
      for (auto it = ends.begin(); it != ends.end();) {
        const std::set<int> inside = InsideOf(*it, only_read);
        if (Holds(*it, inside)) {
          ++it;
          continue;
        }
        in_memory_.insert(inside.begin(), inside.end());
        it = ends.erase(it);
        changed = true;
      }
    }
    for (const int end : ends) {
      (*lowered)[end] = true;
      for (const int node : InsideOf(end, only_read)) {
        (*lazy)[node] = true;
        if (graph_.nodes[node].op == kProducts) (*lowered)[node] = true;
      }
    }
  }

 private:
  // By node: whether chains alone read it.
  std::vector<bool> OnlyRead() const {
    const int count = static_cast<int>(graph_.nodes.size());
    std::vector<bool> only_read(count, false);
    for (int i = count - 1; i >= 0; --i) {  // all readers of a node come behind it
      if (!uses_.Runs(i)) continue;
      const Node& node = graph_.nodes[i];
      const bool is_product =
          node.op == kProducts && rules_.LoweringOf(node) != nullptr && rules_.CanGenerate(node);
      const auto readers = uses_.Readers({first_ + i, 0});
      only_read[i] = (is_product || IsOfElements(node, rules_)) && !readers.empty() &&
                     std::ranges::all_of(readers, [&](int reader) {
                       return reader < count && (only_read[reader] || IsFunctionOf(i, reader));
                     });
    }
    return only_read;
  }

  // Whether `end` reads the node's result as a function of scores, and not otherwise.
  bool IsFunctionOf(int node, int end) const {
    const Node& reader = graph_.nodes[end];
    const EndRule* rule = RuleOf(reader);
    if (rule == nullptr) return false;
    bool found = false, otherwise = false;
    for (size_t a = 0; a < reader.args.size(); ++a) {
      ForEachValue({reader.args[a]}, [&](const ArgumentValue& arg) {
        if (arg.value != first_ + node) return;
        (static_cast<int>(a) < rule->functions ? found : otherwise) = true;
      });
    }
    return found && !otherwise;
  }

  // The nodes that make an end's functions and that only chains read.
  std::set<int> InsideOf(int end, const std::vector<bool>& only_read) const {
    std::set<int> inside;
    std::vector<int> open;
    const auto add = [&](const ArgumentValue& arg) {
      const int node = arg.value - first_;
      if (node >= 0 && only_read[node] && inside.insert(node).second) open.push_back(node);
    };
    const Node& node = graph_.nodes[end];
    for (int a = 0; a < RuleOf(node)->functions; ++a) add(node.args[a]);
    while (!open.empty()) {
      const Node& of = graph_.nodes[open.back()];
      open.pop_back();
      if (of.op != kProducts) ForEachValue(of.args, add);
    }
    return inside;
  }

  TensorType TypeOf(const ArgumentValue& arg) const { return graph_.TypeOf(arg.value, arg.output); }

  // Counts and numbers of blocks of whole tiles.
  bool HasLists(const Node& end) const {
    const std::vector<ArgumentValue>& lists = Argument(end, "blocks").items;
    for (const ArgumentValue& list : lists) {
      if (TypeOf(list).dtype != kInt32 || TypeOf(list).sizes.size() < 3) return false;
    }
    const std::vector<ArgumentValue>& sizes = Argument(end, "sizes").items;
    const auto is_of_tiles = [](const ArgumentValue& size) {
      const auto rows = size.integer.AsConstant();
      return rows && *rows > 0 && *rows % kTile == 0;
    };
    return lists.size() <= 4 && lists.size() % 2 == 0 && sizes.size() == 2 &&
           std::ranges::all_of(sizes, is_of_tiles);
  }

  // Rows of 16 bits and a width that the kernels have, which nobody writes before they are read.
  bool AreRows(const ArgumentValue& rows, int products, int end) const {
    const TensorType type = TypeOf(rows);
    const bool narrow = type.dtype == v1::DTYPE_FLOAT16 || type.dtype == v1::DTYPE_BFLOAT16;
    const auto width = type.sizes.size() == 4 ? type.sizes[3].AsConstant() : std::nullopt;
    return narrow && width && *width > 0 && *width <= kMostColumns &&
           *width % kAttentionCopy == 0 && !uses_.IsWrittenBetween(ValueOf(rows), products, end);
  }

  // Of all products inside, and of the end, in one type.
  bool HasRows(int end, const std::set<int>& inside) const {
    std::set<DType> types;
    const auto fits = [&](int node) {
      return std::ranges::all_of(graph_.nodes[node].args, [&](const ArgumentValue& arg) {
        if (!IsValue(arg) || inside.count(arg.value - first_) != 0) return true;
        types.insert(TypeOf(arg).dtype);
        return AreRows(arg, node, end);
      });
    };
    const auto is_whole = [&](int node) { return !IsProduct(node) || fits(node); };
    return fits(end) && std::ranges::all_of(inside, is_whole) && types.size() == 1;
  }

  // Functions are of every score, and nobody else reads them.
  bool HasFunctions(const Node& end, const std::set<int>& inside) const {
    for (int a = 0; a < RuleOf(end)->functions; ++a) {
      const TensorType type = TypeOf(end.args[a]);
      if (inside.count(end.args[a].value - first_) == 0 || type.dtype != kFloat32 ||
          type.sizes.size() != 4 || type.sizes != TypeOf(end.args[0]).sizes) {
        return false;
      }
    }
    return true;
  }

  bool IsProduct(int node) const { return graph_.nodes[node].op == kProducts; }

  // Whether there is a kernel of it.
  bool Holds(int end, const std::set<int>& inside) const {
    const Node& node = graph_.nodes[end];
    const auto is_in_memory = [&](int other) { return in_memory_.count(other) != 0; };
    const auto products =
        std::ranges::count_if(inside, [&](int other) { return IsProduct(other); });
    return rules_.LoweringOf(node) != nullptr && rules_.CanGenerate(node) &&
           products == RuleOf(node)->products && std::ranges::none_of(inside, is_in_memory) &&
           HasFunctions(node, inside) && HasRows(end, inside) && HasLists(node);
  }

  const Graph& graph_;
  const Uses& uses_;
  const LoweringRules& rules_;
  const int first_;
  std::set<int> in_memory_;  // what ends that are the job's read
};

}  // namespace

AttentionChains::AttentionChains(const Graph& graph, const Uses& uses, const LoweringRules& rules,
                                 bool on_chip)
    : lowered_(graph.nodes.size(), false), lazy_(graph.nodes.size(), false) {
  if (on_chip) Finder(graph, uses, rules).Run(&lowered_, &lazy_);
}

}  // namespace tensord::compiler
