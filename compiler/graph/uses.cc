// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/uses.h"

#include <algorithm>
#include <numeric>

#include "compiler/graph/arguments.h"
#include "compiler/ops/operators.h"

namespace tensord::compiler {

bool HasEffect(const Node& node) {
  const Operator* op = FindOperator(node.op);
  return WritesArgument(op) || ActsBesides(op) ||
         (node.outputs.empty() && !HasTrait(op, kNoEffect));
}

std::vector<ValueId> WrittenBy(const Node& node) {
  const Operator* op = FindOperator(node.op);
  std::vector<ValueId> written;
  if (!WritesArgument(op)) return written;
  ForEachValue({node.args[op->written]},
               [&](const ArgumentValue& arg) { written.push_back(ValueOf(arg)); });
  return written;
}

bool IsView(const Node& node) {
  const Operator* op = FindOperator(node.op);
  return IsOfKind(op, OperatorKind::kView) && op->IsLowered() && !node.args.empty() &&
         IsValue(FirstArgument(node));
}

bool IsProduct(const Node& node) { return IsOfKind(FindOperator(node.op), OperatorKind::kProduct); }

bool IsGenerated(const Node& node) { return IsLowered(FindOperator(node.op)) && !IsProduct(node); }

Uses::Uses(const Graph& graph) : graph_(graph), runs_(graph.nodes.size(), false), first_result_{0} {
  const int first = graph.FirstNodeValue(), nodes = static_cast<int>(graph.nodes.size());
  for (int v = 0; v < first + nodes; ++v) {
    const size_t results = v < first ? 1 : graph.nodes[v - first].outputs.size();
    first_result_.push_back(first_result_.back() + static_cast<int>(results));
  }
  const int results = first_result_.back();
  counts_.resize(results);
  first_reader_.resize(results + 1);
  // Readers are found backwards, for whether a node runs follows from those behind it.
  struct Read {
    int result, reader;
  };
  std::vector<Read> reads;
  std::vector<int> found_last(results, -1);  // by result: a reader
  const auto read_by = [&](int reader) {
    return [&, reader](const ArgumentValue& arg) {
      const int result = first_result_[arg.value] + arg.output;
      ++counts_[result];
      if (found_last[result] != reader) {
        found_last[result] = reader;
        reads.push_back({result, reader});
        ++first_reader_[result + 1];
      }
      if (arg.value >= first) runs_[arg.value - first] = true;
    };
  };
  ForEachValue(graph.outputs, read_by(nodes));
  for (int i = nodes - 1; i >= 0; --i) {
    if (!runs_[i]) runs_[i] = HasEffect(graph.nodes[i]);
    if (runs_[i]) ForEachValue(graph.nodes[i].args, read_by(i));
  }
  std::partial_sum(first_reader_.begin(), first_reader_.end(), first_reader_.begin());
  readers_.resize(reads.size());
  std::vector<int> next = first_reader_;
  for (auto read = reads.rbegin(); read != reads.rend(); ++read) {
    readers_[next[read->result]++] = read->reader;
  }
}

int Uses::ResultOf(ValueId value) const {
  const auto [number, result] = value;
  if (number + 1 >= static_cast<int>(first_result_.size())) return -1;
  const int of_all = first_result_[number] + result;
  return of_all < first_result_[number + 1] ? of_all : -1;
}

std::span<const int> Uses::ReadersOf(int result) const {
  return std::span(readers_).subspan(first_reader_[result],
                                     first_reader_[result + 1] - first_reader_[result]);
}

int Uses::Count(ValueId value) const {
  const int result = ResultOf(value);
  return result < 0 ? 0 : counts_[result];
}

std::span<const int> Uses::Readers(ValueId value) const {
  const int result = ResultOf(value);
  return result < 0 ? std::span<const int>() : ReadersOf(result);
}

int Uses::LastReader(ValueId value) const {
  const std::span<const int> readers = Readers(value);
  return readers.empty() ? -1 : readers.back();
}

ValueId Uses::Root(ValueId value) const {
  const int first = graph_.FirstNodeValue();
  const auto root = [&](ValueId of) {
    const int node = of.first - first;
    const bool is_view =
        node >= 0 && node < static_cast<int>(roots_->size()) && (*roots_)[node].first >= 0;
    return is_view ? (*roots_)[node] : of;
  };
  if (!roots_) {
    roots_.emplace(graph_.nodes.size(), ValueId(-1, -1));
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (IsView(node)) (*roots_)[i] = root(ValueOf(FirstArgument(node)));
    }
  }
  return root(value);
}

// The root, or what that is the written argument of: a copy gives what it has written.
ValueId Uses::MemoryOf(ValueId value) const {
  for (;;) {
    value = Root(value);
    const int node = value.first - graph_.FirstNodeValue();
    if (node < 0 || node >= static_cast<int>(graph_.nodes.size())) return value;
    const Operator* op = FindOperator(graph_.nodes[node].op);
    if (!WritesArgument(op) || !IsValue(graph_.nodes[node].args[op->written])) return value;
    value = ValueOf(graph_.nodes[node].args[op->written]);
  }
}

bool Uses::IsWrittenBetween(ValueId value, int from, int to) const {
  if (!writers_) {
    writers_.emplace();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const ValueId& written : WrittenBy(graph_.nodes[i])) {
        (*writers_)[MemoryOf(written)].push_back(static_cast<int>(i));
      }
    }
  }
  if (writers_->empty()) return false;
  const auto writers = writers_->find(MemoryOf(value));
  if (writers == writers_->end()) return false;
  const auto next = std::lower_bound(writers->second.begin(), writers->second.end(), from);
  return next != writers->second.end() && *next < to;
}

bool Uses::ReadsTheSameAt(int node, int place) const {
  bool same = true;
  ForEachValue(graph_.nodes[node].args, [&](const ArgumentValue& arg) {
    same = same && !IsWrittenBetween(ValueOf(arg), node, place);
  });
  return same;
}

// Of which results it is true that an output, or a node that fulfils the condition, reads it or a
// view of it.
template <typename Condition>
std::vector<bool> Uses::ReadBy(const Condition& condition) const {
  std::vector<bool> read(counts_.size(), false);
  const int first = graph_.FirstNodeValue();
  const auto is_read = [&](int reader) {
    if (reader == static_cast<int>(graph_.nodes.size())) return true;
    const Node& node = graph_.nodes[reader];
    if (!IsView(node)) return condition(node);
    const auto views = read.begin() + first_result_[first + reader];
    const auto behind = read.begin() + first_result_[first + reader + 1];
    return std::find(views, behind, true) != behind;
  };
  // Views have greater numbers than what they are views of.
  for (int result = static_cast<int>(read.size()) - 1; result >= 0; --result) {
    const std::span<const int> readers = ReadersOf(result);
    read[result] = std::any_of(readers.begin(), readers.end(), is_read);
  }
  return read;
}

bool Uses::IsTrueOf(const std::vector<bool>& results, ValueId value) const {
  const int result = ResultOf(value);
  return result >= 0 && results[result];
}

bool Uses::NeedsEagerLayout(ValueId value) const {
  if (!needs_eager_layout_) {
    needs_eager_layout_ =
        ReadBy([](const Node& node) { return !IsGenerated(node) && !IsProduct(node); });
  }
  return IsTrueOf(*needs_eager_layout_, value);
}

bool Uses::IsGivenOut(ValueId value) const {
  if (!given_out_) given_out_ = ReadBy([](const Node&) { return false; });
  return IsTrueOf(*given_out_, value);
}

bool Uses::IsRootShared(ValueId value) const {
  while (value.first >= graph_.FirstNodeValue()) {
    const Node& node = graph_.nodes[value.first - graph_.FirstNodeValue()];
    if (!IsView(node)) break;
    value = ValueOf(FirstArgument(node));
    if (Readers(value).size() > 1) return true;
  }
  return false;
}

}  // namespace tensord::compiler
