// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/step_work.h"

#include <absl/container/btree_set.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tensord::compiler {
namespace {

// An amount whose numbers may be too large to be known: a graph may have sizes whose products do
// not fit 64 bits.
class Amount {
 public:
  Amount() : Amount(Expr(0)) {}
  Amount(const Expr& expr) : expr_(expr), size_(SizeOf(expr)) {}  // NOLINT: amounts are expressions

  Amount& operator+=(const Amount& other) {
    size_ += other.size_;
    if (IsKnown()) expr_ += other.expr_;
    return *this;
  }
  friend Amount operator*(Amount a, const Amount& b) {
    a.size_ *= b.size_;
    if (a.IsKnown()) a.expr_ *= b.expr_;
    return a;
  }
  // Not known where one of them is not.
  friend Amount Most(const Amount& a, const Amount& b) {
    if (!a.IsKnown()) return a;
    return b.IsKnown() ? Amount(sym::Max(a.expr_, b.expr_)) : b;
  }
  // Of one that is not known, the other.
  friend Amount Least(const Amount& a, const Amount& b) {
    if (!a.IsKnown()) return b;
    return b.IsKnown() ? Amount(sym::Min(a.expr_, b.expr_)) : a;
  }
  static Amount ProductOf(const std::vector<Expr>& factors) {
    Amount product(Expr(1));
    for (const Expr& factor : factors) product = product * factor;
    return product;
  }

  // What a run can evaluate; nothing where it is not known.
  std::optional<Expr> Get() const {
    const bool is_free = !sym::ContainsKind(expr_, sym::AtomKind::kLoop) &&
                         !sym::ContainsKind(expr_, sym::AtomKind::kIndirect);
    return IsKnown() && is_free ? std::optional<Expr>(expr_) : std::nullopt;
  }

 private:
  static constexpr double kMost = 4e18;  // below 2^62

  bool IsKnown() const { return size_ < kMost; }
  // No less than the expression at its hints and the sum of its coefficients, both without signs;
  // of sums and products no more than the sum and the product of their parts' sizes.
  static double SizeOf(const Expr& expr) {
    double size = 0;
    for (const sym::Term& term : expr.terms()) {
      double product = std::abs(static_cast<double>(term.coefficient));
      for (const sym::AtomPtr& atom : term.atoms) {
        product *= std::max(1.0, std::abs(static_cast<double>(Hint(Expr::FromAtom(atom)))));
      }
      size += product;
    }
    return size;
  }

  Expr expr_;
  double size_;
};

// The elements of a step's buffers that it reads, or those that it writes.
class Elements {
 public:
  explicit Elements(const Program& program) : program_(program) {}

  // Those at `index`, in all iterations of the loops of `op`. The same ones count once: those from
  // the same first to the same last one, in whatever order the loops go.
  void Add(BufferId buffer, const Expr& index, const LoopOp& op) {
    if (!seen_.emplace(buffer, index).second) return;
    if (sym::ContainsKind(index, sym::AtomKind::kIndirect)) {
      AddCount(buffer, Amount::ProductOf(op.sizes) * Amount::ProductOf(op.reduce_sizes));
      return;
    }
    Amount count(Expr(1));
    sym::Substitution first, last;
    sym::ForEachSymbol(index, [&](const sym::Atom& atom) {
      const sym::SymbolKey loop(atom.kind, atom.id);
      if (atom.kind != sym::AtomKind::kLoop || !first.emplace(loop, 0).second) return;
      last.emplace(loop, atom.args[0] - 1);
      count = count * atom.args[0];
    });
    const auto [place, is_new] = spans_[buffer].try_emplace(
        {sym::Substitute(index, first), sym::Substitute(index, last)}, count);
    if (!is_new) place->second = Most(place->second, count);
  }
  void AddCount(BufferId buffer, const Amount& count) { counts_[buffer] += count; }

  template <typename Skip>
  Amount Bytes(const Skip& skip) const {
    std::map<BufferId, Amount> counts = counts_;
    for (const auto& [id, spans] : spans_) {
      for (const auto& [span, count] : spans) counts[id] += count;
    }
    Amount bytes;
    for (const auto& [id, count] : counts) {
      if (skip(id)) continue;
      const BufferInfo& buffer = program_.buffers[id];
      bytes += Least(count, StorageElements(buffer.sizes, buffer.strides)) *
               Expr(ItemSize(buffer.dtype));
    }
    return bytes;
  }
  bool Has(BufferId buffer) const {
    return counts_.count(buffer) != 0 || spans_.count(buffer) != 0;
  }

 private:
  const Program& program_;
  std::map<BufferId, Amount> counts_;                                  // of those that no span has
  std::map<BufferId, std::map<std::pair<Expr, Expr>, Amount>> spans_;  // by first and last index
  std::set<std::pair<BufferId, Expr>> seen_;
};

StepWork WorkOfKernel(const Program& program, const Kernel& kernel, const LaunchInterface& launch) {
  const absl::btree_set<BufferId> in_memory(launch.buffers.begin(), launch.buffers.end());
  Elements reads(program), writes(program);
  std::set<BufferId> added_to;
  const auto add = [&](Elements& to, BufferId id, const Expr& index, const LoopOp& op) {
    if (id >= 0 && in_memory.count(id) != 0) to.Add(id, index, op);
  };
  const auto visit = [&](const NestMember& member) {
    const auto& op = std::get<LoopOp>(program.operations[member.op]);
    for (const Inst& inst : op.block.insts) {
      if (inst.kind == InstKind::kLoad) add(reads, inst.buffer, inst.index, op);
    }
    for (const Store& store : op.stores) {
      add(writes, store.buffer, store.index, op);
      if (store.mode == StoreMode::kAssign) continue;
      add(reads, store.buffer, store.index, op);
      added_to.insert(store.buffer);
    }
    for (const Reduction& reduction : op.reductions) {
      for (size_t i = 0; i < reduction.results.size(); ++i) {
        add(writes, reduction.results[i], reduction.indices[i], op);
      }
    }
  };
  for (const Nest& nest : kernel.nests) {
    for (const auto* members : {&nest.members, &nest.after}) {
      for (const NestMember& member : *members) visit(member);
    }
  }
  const auto is_own = [&](BufferId id) {
    return writes.Has(id) && added_to.count(id) == 0 &&
           program.buffers[id].kind == BufferKind::kComputed;
  };
  return {reads.Bytes(is_own).Get(), writes.Bytes([](BufferId) { return false; }).Get(), {}};
}

using Views = std::vector<BufferView>;

// 2 m k n of a product of matrices [.., m, k] and [.., k, n].
Amount ProductFlops(const BufferView& a, const BufferView& b) {
  return Amount(Expr(2)) * Amount::ProductOf(a.sizes) * b.sizes.back();
}

// Of a convolution that makes `made` of `taken`: each element made has a product for each of its
// filter [channels out, ...], behind the first size. A transposed one, of a filter [channels in,
// ...], has as many for each element taken.
Amount ConvolutionFlops(bool transposed, const std::vector<Expr>& taken,
                        const std::vector<Expr>& made, const BufferView& filter) {
  const std::vector<Expr> each(filter.sizes.begin() + 1, filter.sizes.end());
  return Amount(Expr(2)) * Amount::ProductOf(transposed ? taken : made) * Amount::ProductOf(each);
}

// Of attention over q, k and v of [.., rows, width]: `by_key` products by keys and `by_value` by
// values.
Amount AttentionFlops(const BufferView& q, const BufferView& k, const BufferView& v, int by_key,
                      int by_value) {
  const std::vector<Expr> queries(q.sizes.begin(), q.sizes.end() - 1);
  Amount widths = Amount(Expr(by_key)) * q.sizes.back();
  widths += Amount(Expr(by_value)) * v.sizes.back();
  return Amount(Expr(2)) * Amount::ProductOf(queries) * k.sizes[k.sizes.size() - 2] * widths;
}

// How many of the first two gradients of a convolution are wanted: its last argument says it.
int WantedGradients(const ExternOp& op) {
  const auto* mask = std::get_if<ExternArgList>(&op.args.back().value);
  return mask == nullptr ? 0 : int{IsTrue(*mask, 0)} + int{IsTrue(*mask, 1)};
}

struct FlopRule {
  absl::string_view op;  // how its name begins
  size_t first, end;     // of its tensor arguments those that are to be matrices, or stacks of them
  Amount (*flops)(const ExternOp& op, const Views& views, const std::vector<Expr>& made);
};
constexpr auto kProduct = [](const ExternOp&, const Views& views, const std::vector<Expr>&) {
  return ProductFlops(views[0], views[1]);
};
constexpr auto kAddedProduct = [](const ExternOp&, const Views& views, const std::vector<Expr>&) {
  return ProductFlops(views[1], views[2]);
};
// aten::convolution(input, filter, bias, stride, padding, dilation, transposed, ..) and its
// gradient of (gradient, input, filter, bias, stride, padding, dilation, transposed, ..).
constexpr size_t kIsTransposed = 6, kIsTransposedBackward = 7;
// The first that fits.
constexpr FlopRule kFlopRules[] = {
    {"aten::mm", 0, 2, kProduct},
    {"aten::bmm", 0, 2, kProduct},
    {"aten::addmm", 1, 3, kAddedProduct},
    {"aten::_addmm_activation", 1, 3, kAddedProduct},
    {"aten::baddbmm", 1, 3, kAddedProduct},
    {"aten::convolution_backward", 0, 3,
     [](const ExternOp& op, const Views& views, const std::vector<Expr>&) {
       return Amount(Expr(WantedGradients(op))) *
              ConvolutionFlops(IsTrue(op.args, kIsTransposedBackward), views[1].sizes,
                               views[0].sizes, views[2]);
     }},
    // Of all tiles, as if nothing were masked.
    {"tensord::attention_query_gradient", 0, 4,
     [](const ExternOp&, const Views& views, const std::vector<Expr>&) {
       return AttentionFlops(views[0], views[1], views[2], 2, 1);
     }},
    {"tensord::attention_key_gradients", 0, 4,
     [](const ExternOp&, const Views& views, const std::vector<Expr>&) {
       return AttentionFlops(views[0], views[1], views[2], 2, 2);
     }},
    {"tensord::attention", 0, 3,
     [](const ExternOp&, const Views& views, const std::vector<Expr>&) {
       return AttentionFlops(views[0], views[1], views[2], 1, 1);
     }},
    {"aten::convolution", 0, 2,
     [](const ExternOp& op, const Views& views, const std::vector<Expr>& made) {
       return ConvolutionFlops(IsTrue(op.args, kIsTransposed), views[0].sizes, made, views[1]);
     }},
    {"aten::cudnn_convolution_transpose", 0, 2,
     [](const ExternOp&, const Views& views, const std::vector<Expr>& made) {
       return ConvolutionFlops(true, views[0].sizes, made, views[1]);
     }},
    {"aten::cudnn_convolution", 0, 2,
     [](const ExternOp&, const Views& views, const std::vector<Expr>& made) {
       return ConvolutionFlops(false, views[0].sizes, made, views[1]);
     }},
};
constexpr absl::string_view kAttention = "aten::_scaled_dot_product_";

// Whether some of the views are there, and real matrices or stacks of them.
bool AreMatrices(const Views& views, size_t first, size_t end) {
  return views.size() >= end &&
         std::all_of(views.begin() + static_cast<std::ptrdiff_t>(first),
                     views.begin() + static_cast<std::ptrdiff_t>(end), [](const BufferView& view) {
                       return view.sizes.size() >= 2 && !view.is_complex;
                     });
}

std::optional<Expr> FlopsOf(const Program& program, const ExternOp& op) {
  Views views;
  ForEachView(op.args, [&](const BufferView& view) { views.push_back(view); });
  std::vector<Expr> made;
  if (!op.outs.empty()) {
    made = op.outs.front().sizes;
  } else if (!op.results.empty() && op.results.front() >= 0) {
    made = program.buffers[op.results.front()].sizes;
  }
  const absl::string_view name = op.op;
  if (name.substr(0, kAttention.size()) == kAttention) {
    const bool backward = name.find("backward") != absl::string_view::npos;
    const size_t first = backward ? 1 : 0;  // behind the gradient
    if (!AreMatrices(views, first, first + 3)) return std::nullopt;
    return AttentionFlops(views[first], views[first + 1], views[first + 2], backward ? 3 : 1,
                          backward ? 2 : 1)
        .Get();
  }
  const auto* rule =
      std::find_if(std::begin(kFlopRules), std::end(kFlopRules),
                   [&](const FlopRule& one) { return name.substr(0, one.op.size()) == one.op; });
  if (rule == std::end(kFlopRules) || !AreMatrices(views, rule->first, rule->end)) {
    return std::nullopt;
  }
  return rule->flops(op, views, made).Get();
}

StepWork WorkOfCall(const Program& program, const ExternOp& op) {
  Elements reads(program), writes(program);
  const auto add = [](Elements& to, const BufferView& view) {
    const Amount elements =
        Least(Amount::ProductOf(view.sizes), StorageElements(view.sizes, view.strides));
    to.AddCount(view.buffer, elements * Expr(view.is_complex ? 2 : 1));
  };
  const auto add_whole = [&](Elements& to, BufferId id) {
    if (id >= 0) add(to, ViewOfBuffer(id, program.buffers[id]));
  };
  ForEachView(op.args, [&](const BufferView& view) { add(reads, view); });
  for (const BufferView& out : op.outs) add(writes, out);
  if (op.outs.empty()) {
    for (const BufferId id : op.results) add_whole(writes, id);
  }
  for (const BufferId id : op.mutated) add_whole(writes, id);
  const auto none = [](BufferId) { return false; };
  return {reads.Bytes(none).Get(), writes.Bytes(none).Get(), FlopsOf(program, op)};
}

}  // namespace

StepWork WorkOf(const Program& program, const ScheduledStep& step, const LaunchInterface& launch) {
  if (const auto* kernel = std::get_if<Kernel>(&step.work)) {
    return WorkOfKernel(program, *kernel, launch);
  }
  return WorkOfCall(program, std::get<ExternOp>(program.operations[std::get<int>(step.work)]));
}

}  // namespace tensord::compiler
