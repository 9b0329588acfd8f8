// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/lower_graph.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "compiler/decompose/attention_chains.h"
#include "compiler/decompose/body_reads.h"
#include "compiler/decompose/expressions.h"
#include "compiler/decompose/extern_call.h"
#include "compiler/decompose/layout.h"
#include "compiler/decompose/lowered_values.h"
#include "compiler/decompose/lowering_rules.h"
#include "compiler/decompose/memory_needs.h"
#include "compiler/decompose/verify_results.h"
#include "compiler/graph/arguments.h"
#include "compiler/graph/layout.h"
#include "compiler/graph/uses.h"
#include "compiler/ops/operators.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

// Whether a lazy result gets a buffer. Inlining a body into every reader saves a store and loads,
// and costs the computation once per reader:
//   - several readers: worth it while the body is cheaper than reading it back from memory;
//   - one reader: always worth it, until the body is so large that compilers spill and fusion has
//     no choice left. A chain of views costs nothing, but every link is a call when the body is
//     run.
// `stays`: a result of the program, which has memory in any case.
bool ShouldRealize(const Tensor& t, int uses, bool stays, int chain) {
  if (t.view()) return false;
  if (t.cost() > 150 || t.reads() > 12 || chain > 250) return true;
  // Computed where it is read first, with that reader, not from the same operands at the end.
  if (stays && uses > 1 && t.reads() >= 2) return true;
  return uses > 1 && (t.cost() >= 10 || t.reads() >= 3);
}

class Lowerer {
 public:
  Lowerer(const Graph& graph, v1::DeviceType device, LoweringOptions options)
      : graph_(graph),
        device_(device),
        uses_(graph),
        rules_(graph, device, options.target),
        types_(graph, device, options),
        needs_(FindMemoryNeeds(graph, uses_, rules_)),
        chains_(graph, uses_, rules_, options.has_warpgroups),
        builder_(device, options),
        values_(graph, uses_, &builder_, needs_.in_shapes) {}

  absl::StatusOr<Program> Run() {
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      if (uses_.Runs(i)) TENSORD_RETURN_IF_ERROR(Lower(i));
    }
    for (const ArgumentValue& output : graph_.outputs) Output(output);
    Program program = std::move(builder_.program());
    DropDeadOperations(program);
    return program;
  }

 private:
  absl::Status Lower(int i) {
    const Node& node = graph_.nodes[i];
    builder_.set_origin(node.name);
    for (const ValueId& target : WrittenBy(node)) {
      TENSORD_RETURN_IF_ERROR(values_.PrepareWrite(i, target));
    }
    Results results = absl::UnimplementedError("left to the library");
    const Lowering* lowering = rules_.LoweringOf(node);
    if (lowering != nullptr && rules_.IsViewElsewhere(node)) {
      results = ViewElsewhere(node, *lowering);
    } else if (lowering != nullptr && rules_.CanGenerate(node) && !IsTheJobs(i)) {
      if (!TakesTypes(node, *lowering)) {
        return absl::InvalidArgumentError(absl::StrCat(
            Describe(node), ": it does not take operands of these types; eager says why"));
      }
      results = Generate(node, *lowering);
    }
    if (absl::IsUnimplemented(results.status())) {
      TENSORD_ASSIGN_OR_RETURN(results, CallLibraryFor(node));
    } else if (!results.ok()) {
      return absl::Status(results.status().code(),
                          absl::StrCat(Describe(node), ": ", results.status().message()));
    } else {
      TENSORD_RETURN_IF_ERROR(VerifyResults(node, *results));
    }
    // A view is of what has been rounded.
    if (!IsView(node)) {
      for (Tensor& t : *results) {
        if (t.defined()) t = builder_.Rounded(t);
      }
    }
    if (!chains_.StaysLazy(i)) RealizeResults(i, &*results);
    values_.SetResults(i, *std::move(results));
    return absl::OkStatus();
  }

  // Attention whose scores are in memory.
  bool IsTheJobs(int i) const {
    return IsOfKind(FindOperator(graph_.nodes[i].op), OperatorKind::kAttention) &&
           !chains_.IsLowered(i);
  }

  void RealizeResults(int i, std::vector<Tensor>* results) {
    const Node& node = graph_.nodes[i];
    const int chain = values_.ChainBefore(node) + 1;
    for (size_t o = 0; o < results->size(); ++o) {
      Tensor& t = (*results)[o];
      if (!t.defined()) continue;
      const ValueId result(graph_.FirstNodeValue() + i, static_cast<int>(o));
      if (needs_.shared.count(result) > 0 && t.view() && !IsView(node)) {
        if (IsCopyOfAnInput(result, t)) t = LazyCopy(builder_, t);
        t = WithStrides(builder_, t, BufferStrides(node.outputs[o]));
      }
      const bool shared = !t.view() && needs_.shared.count(result) > 0;
      const bool stays = uses_.LastReader(result) == static_cast<int>(graph_.nodes.size());
      // Made where it is captured: what it is made of need not wait for the call's end. Nor is that
      // too far from what reads the same for one kernel.
      const bool leaves = stays && uses_.Count(result) == 1 &&
                          (IsLazyCopyOfComputed(node, t) || IsOfMoreThatIsComputed(result, t));
      if (!shared && !leaves && !ShouldRealize(t, CountOfReaders(result, t), stays, chain)) {
        continue;
      }
      if (IsComplex(t.dtype()) && !shared && !leaves && !IsReadByCall(result)) {
        t = builder_.RealizeParts(t);
      } else {
        t = builder_.RealizeAs(t, BufferStrides(node.outputs[o]));
      }
    }
  }

  // Whether it copies what is in memory because the call has computed it.
  bool IsLazyCopyOfComputed(const Node& node, const Tensor& t) {
    if (t.view() || node.op != "aten::clone") return false;
    const Tensor& source = values_[ValueOf(node.args[0])];
    return source.view() && IsComputed(source.view()->buffer);
  }

  // Whether a lazy result reads something larger that the call has computed.
  bool IsOfMoreThatIsComputed(ValueId result, const Tensor& t) {
    if (t.view()) return false;
    const int64_t bytes = BytesHint(graph_.TypeOf(result));
    return std::ranges::any_of(ReadsOf(t).buffers, [&](BufferId id) {
      return IsComputed(id) && BufferBytes(builder_.program().buffers[id]) > bytes;
    });
  }

  // Without those that compute the value again rather than read it from memory.
  int CountOfReaders(ValueId value, const Tensor& t) {
    int count = uses_.Count(value);
    for (const int reader : uses_.Readers(value)) {
      if (reader == static_cast<int>(graph_.nodes.size())) continue;
      const Node& node = graph_.nodes[reader];
      if (node.op != "tensord::softmax_statistics") continue;
      const auto dim = Argument(node, "dim").integer.AsConstant();
      const auto normalized = NormalizeDim(dim.value_or(-1), t.rank());
      if (!normalized.ok()) continue;
      if (IsComputedAgainInRows(builder_, ToFloat(builder_, t), *normalized)) --count;
    }
    return count;
  }

  // Whether a library call may read a value, or a view of it, from memory.
  bool IsReadByCall(ValueId value) const {
    for (const int reader : uses_.Readers(value)) {
      if (reader == static_cast<int>(graph_.nodes.size())) continue;
      const Node& node = graph_.nodes[reader];
      if (rules_.MayBeCall(node)) return true;
      if (!IsView(node)) continue;
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        if (IsReadByCall({graph_.FirstNodeValue() + reader, static_cast<int>(o)})) return true;
      }
    }
    return false;
  }

  // ---- Code of ours

  // Views compute nothing, and passes made the operators of tensord's own.
  bool TakesTypes(const Node& node, const Lowering& lowering) {
    return IsView(node) || IsOwn(node) || types_.Fit(node, lowering);
  }
  static bool IsOwn(const Node& node) { return node.op.starts_with("tensord::"); }

  // Unimplemented where the lowering leaves this case to the library, without what it began.
  Results Generate(const Node& node, const Lowering& lowering) {
    if (IsProduct(node) || IsOfKind(FindOperator(node.op), OperatorKind::kAttention)) {
      ForEachValue(node.args, [&](const ArgumentValue& arg) {
        const int maker = arg.value - graph_.FirstNodeValue();
        if (maker >= 0 && chains_.StaysLazy(maker)) return;
        values_.InShape(ValueOf(arg));
        values_.Realize(ValueOf(arg));
      });
    }
    const Borrowed borrowed = BringNumbersOver(node);
    Program& program = builder_.program();
    const size_t buffers = program.buffers.size(), operations = program.operations.size();
    const Call call = values_.CallOf(node);
    Results results = lowering.lower(builder_, call);
    if (results.ok() && call.needs_constant())
      results = absl::UnimplementedError("an argument that must be constant is symbolic");
    for (const auto& [value, original] : borrowed) values_[value] = original;
    if (absl::IsUnimplemented(results.status())) {
      program.buffers.resize(buffers);
      program.operations.resize(operations);
    }
    return results;
  }

  // Unimplemented where the results are not all views: code for that device would be needed.
  Results ViewElsewhere(const Node& node, const Lowering& lowering) {
    Program& program = builder_.program();
    const size_t buffers = program.buffers.size(), operations = program.operations.size();
    const Call call = values_.CallOf(node);
    Results results = lowering.lower(builder_, call);
    const auto is_view = [](const Tensor& t) { return t.view().has_value(); };
    if (!results.ok() || call.needs_constant() || program.operations.size() != operations ||
        !std::ranges::all_of(*results, is_view)) {
      program.buffers.resize(buffers);
      program.operations.resize(operations);
      return absl::UnimplementedError("the library's, on another device");
    }
    return results;
  }

  // Eager takes zero-dim CPU tensors beside CUDA ones; kernels cannot read them there, so for the
  // time of one lowering copies take their places. Returns what was there.
  using Borrowed = std::map<ValueId, Tensor>;
  Borrowed BringNumbersOver(const Node& node) {
    Borrowed originals;
    ForEachValue(node.args, [&](const ArgumentValue& arg) {
      const ValueId value = ValueOf(arg);
      Tensor& t = values_[value];
      if (!t.defined() || graph_.TypeOf(value).device == device_) return;
      // A second reference already finds the copy.
      if (!originals.emplace(value, t).second) return;
      t = CopyToDevice(builder_, t, device_);
    });
    return originals;
  }

  // ---- Library calls

  Results CallLibraryFor(const Node& node) {
    const Operator* op = FindOperator(node.op);
    if (HasTrait(op, kNoEffect)) return std::vector<Tensor>(node.outputs.size());
    const TensorSource tensor_of = [&](const ArgumentValue& arg) {
      Tensor& t = values_.InShape(ValueOf(arg));
      const TensorType& type = graph_.TypeOf(ValueOf(arg));
      // Library operators choose the layout of their results by that of their arguments, and some
      // kernels by alignment, of dimensions of one element too: each must come as in eager.
      const Tensor there = WithStrides(builder_, t, type.strides);
      if (!t.view()) t = there;
      return there;
    };
    if (!WritesArgument(op) || op->Has(kCallsBack)) return CallLibrary(builder_, node, tensor_of);
    CallLibraryInPlace(builder_, node, tensor_of);
    const std::vector<Tensor> written = {values_[ValueOf(node.args[op->written])]};
    TENSORD_RETURN_IF_ERROR(VerifyResults(node, written));
    return written;
  }

  // ---- Outputs

  void Output(const ArgumentValue& output) {
    ProgramOutput out;
    if (output.kind == ArgumentValue::kInteger) {
      out.kind = ProgramOutput::kInteger;
      out.integer = output.integer;
    } else if (IsValue(output)) {
      out.kind = ProgramOutput::kTensor;
      const ValueId value = ValueOf(output);
      if (auto view = ViewOfShownMemory(value)) {
        out.view = *std::move(view);
        if (needs_.shown.at(value).is_reinterpreted) out.dtype = graph_.TypeOf(value).dtype;
        BufferInfo& memory = builder_.program().buffers[out.view.buffer];
        if (memory.kind != BufferKind::kInput) memory.returned = true;
      } else {
        out.view = OutputView(value);
      }
      out.tensor = TensorNumber(value);
    }
    builder_.program().outputs.push_back(std::move(out));
  }

  // See ProgramOutput::tensor.
  int TensorNumber(ValueId value) {
    if (value.first < static_cast<int>(graph_.inputs.size())) return value.first;
    const int next = static_cast<int>(graph_.inputs.size() + results_.size());
    return results_.emplace(value, next).first->second;
  }

  // An output as what eager gives, where lowering it gave something else: memory seen as another
  // type, or in a shape whose strides do not follow from symbolic sizes.
  std::optional<BufferView> ViewOfShownMemory(ValueId value) {
    const auto it = needs_.shown.find(value);
    if (it == needs_.shown.end()) return std::nullopt;
    const Tensor &memory = values_[it->second.memory], &lowered = values_[value];
    const TensorType &whole = graph_.TypeOf(it->second.memory), &type = graph_.TypeOf(value);
    if (!HasStrides(memory, whole.strides)) return std::nullopt;
    const BufferKind kind = KindOf(memory);
    if (kind == BufferKind::kConstant) return std::nullopt;
    BufferView view = *memory.view();
    if (it->second.is_reinterpreted) {
      if (kind == BufferKind::kInput || !view.offset.Is(0)) return std::nullopt;
      return BufferView{view.buffer, type.sizes, type.strides, type.offset};
    }
    // What the library has copied reaches where the graph knows of no memory, or data decides how.
    if (lowered.view() && KindOf(lowered) == BufferKind::kExternResult) return std::nullopt;
    if (HasStrides(lowered, type.strides) && lowered.view()->buffer == view.buffer)
      return std::nullopt;
    view.sizes = type.sizes;
    view.strides = type.strides;
    view.offset += type.offset - whole.offset;
    const Expr end = type.offset - whole.offset + StorageElements(type.sizes, type.strides);
    const bool is_inside = sym::MayBeSize(type.offset - whole.offset) &&
                           sym::MayBeAtMost(end, StorageElements(whole.sizes, whole.strides));
    return is_inside ? std::optional(view) : std::nullopt;
  }

  BufferView OutputView(ValueId value) {
    if (const int node = value.first - graph_.FirstNodeValue(); node >= 0) {
      builder_.set_origin(graph_.nodes[node].name);
    }
    Tensor& t = values_.InShape(value);
    const TensorType& type = graph_.TypeOf(value);
    // Constants belong to the program and are shared by all its calls; an input must not be handed
    // out as if it were a fresh result.
    if (t.view() && (KindOf(t) == BufferKind::kConstant || IsCopyOfAnInput(value, t)))
      t = LazyCopy(builder_, t);
    t = WithStrides(builder_, t, type.strides);
    if (KindOf(t) != BufferKind::kInput) {
      builder_.program().buffers[t.view()->buffer].returned = true;
    }
    return *t.view();
  }

  // Whether eager copies what the lowered value is a view of.
  bool IsCopyOfAnInput(ValueId value, const Tensor& t) {
    return t.view() && KindOf(t) == BufferKind::kInput && values_.IsCopyInEager(value.first);
  }

  bool IsComputed(BufferId id) {
    const BufferKind kind = builder_.program().buffers[id].kind;
    return kind == BufferKind::kComputed || kind == BufferKind::kExternResult;
  }

  BufferKind KindOf(const Tensor& t) { return builder_.program().buffers[t.view()->buffer].kind; }

  const Graph& graph_;
  const v1::DeviceType device_;
  const Uses uses_;
  const LoweringRules rules_;
  OperandTypes types_;
  const MemoryNeeds needs_;
  const AttentionChains chains_;
  Builder builder_;
  LoweredValues values_;
  std::map<ValueId, int> results_;
};

}  // namespace

absl::StatusOr<Program> LowerGraph(const Graph& graph, LoweringOptions options) {
  return Lowerer(graph, DeviceOf(graph), options).Run();
}

bool IsInJobs(std::string_view op) {
  return !op.starts_with("tensord::") || IsOfKind(FindOperator(op), OperatorKind::kAttention);
}

}  // namespace tensord::compiler
