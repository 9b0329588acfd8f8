#include "compiler/decompose/lower_graph.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "compiler/decompose/extern_call.h"
#include "compiler/decompose/layout.h"
#include "compiler/decompose/loads.h"
#include "compiler/decompose/lowering.h"
#include "compiler/decompose/verify_results.h"
#include "compiler/graph/arguments.h"
#include "compiler/graph/layout.h"
#include "compiler/graph/uses.h"
#include "compiler/ops/operators.h"

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
  Lowerer(const Graph& graph, v1::DeviceType device, bool deterministic)
      : graph_(graph), device_(device), builder_(device, deterministic), uses_(graph) {}

  absl::StatusOr<Program> Run() {
    FindSharedResults();
    FindShapes();
    Sources();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (uses_.Runs(static_cast<int>(i))) TENSORD_RETURN_IF_ERROR(Lower(static_cast<int>(i)));
    }
    for (const ArgumentValue& output : graph_.outputs) Output(output);
    Program program = std::move(builder_.program());
    DropDeadOperations(program);
    return program;
  }

 private:
  int NodeOf(int value) const { return value - graph_.FirstNodeValue(); }

  const TensorType& TypeOf(int value, int output) const { return graph_.TypeOf(value, output); }

  // Results of the program that are views of one computed value share its memory in eager, so that
  // value must have a buffer before the views are taken.
  void FindSharedResults() {
    std::map<ValueId, int> views;
    for (const ArgumentValue& output : graph_.outputs) {
      if (IsValue(output)) ++views[RootOf(graph_, ValueOf(output))];
    }
    for (const auto& [root, count] : views) {
      if (count > 1) shared_.insert(root);
    }
  }

  // Values that library calls and results want in memory in several shapes, as views of the whole:
  // it is there once.
  void FindShapes() {
    std::map<ValueId, std::set<ValueId>> shapes;
    const auto want = [&](const ArgumentValue& arg) {
      const ValueId root = RootOf(graph_, ValueOf(arg));
      const TensorType &type = TypeOf(arg.value, arg.output),
                       &whole = TypeOf(root.first, root.second);
      if (type.dtype == whole.dtype && sym::Product(type.sizes) == sym::Product(whole.sizes)) {
        shapes[root].emplace(arg.value, arg.output);
      }
    };
    ForEachValue(graph_.outputs, want);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (uses_.Runs(static_cast<int>(i)) && MayBeCall(graph_.nodes[i])) {
        ForEachValue(graph_.nodes[i].args, want);
      }
    }
    for (const auto& [root, wanted] : shapes) {
      if (wanted.size() > 1) in_shapes_.insert(root);
    }
  }

  // Whether a lowering (null: there is none) is not left to the library for what the node is.
  bool MayLower(const Node& node, const Lowering* lowering) const {
    return lowering != nullptr && lowering->IsLoweredOn(device_) && (!node.library || IsView(node));
  }

  // Whether a node reads its arguments from memory by a library call, as far as can be told before
  // it is lowered.
  bool MayBeCall(const Node& node) const {
    return !MayLower(node, FindLowering(node.op)) || IsProduct(node);
  }

  // A value that is about to be in memory. What it is a view of comes there first, where that is
  // wanted in several shapes, and it is a view of that.
  Tensor& InShape(const ArgumentValue& ref) {
    Tensor& t = values_[ref.value][ref.output];
    if (!t.defined() || t.view()) return t;
    const ValueId root = RootOf(graph_, ValueOf(ref));
    if (in_shapes_.count(root) == 0) return t;
    Tensor& whole = values_[root.first][root.second];
    if (!whole.view()) {
      whole = builder_.RealizeAs(whole, BufferStrides(TypeOf(root.first, root.second)));
    }
    TakeView({ref.value, ref.output}, root);
    return t;
  }

  // A view that was taken of a value before that had memory, and the views behind it, anew.
  void TakeView(const ValueId& ref, const ValueId& root) {
    if (ref == root || values_[ref.first][ref.second].view()) return;
    const Node& node = graph_.nodes[NodeOf(ref.first)];
    TakeView(ValueOf(FirstArgument(node)), root);
    Results views = FindLowering(node.op)->lower(builder_, Call(graph_, node, values_));
    if (views.ok() && (*views)[ref.second].view()) {
      values_[ref.first][ref.second] = (*views)[ref.second];
    }
  }

  void Sources() {
    values_.resize(graph_.FirstNodeValue() + graph_.nodes.size());
    chains_.resize(values_.size());
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
      values_[inputs + i] = {Refreshed(constant)};
    }
  }

  // The same view, after a change to its buffer's facts.
  Tensor Refreshed(const Tensor& t) {
    return builder_.AsStrided(t, t.sizes(), t.view()->strides, t.view()->offset);
  }

  absl::Status Lower(int i) {
    const Node& node = graph_.nodes[i];
    builder_.set_origin(node.name);
    const Lowering* lowering = FindLowering(node.op);
    if (WritesArgument(FindOperator(node.op))) BeforeMutation(i);
    std::vector<Tensor> results;
    bool lowered = false;
    if (MayLower(node, lowering) && CanGenerate(node)) {
      if (IsProduct(node)) RealizeArguments(node);
      const Borrowed borrowed = BringNumbersOver(node);
      const Program& program = builder_.program();
      const size_t buffers = program.buffers.size(), operations = program.operations.size();
      Results attempt = lowering->lower(builder_, Call(graph_, node, values_));
      for (const auto& [ref, original] : borrowed) values_[ref.first][ref.second] = original;
      if (attempt.ok()) {
        results = *std::move(attempt);
        lowered = true;
      } else if (attempt.status().code() == absl::StatusCode::kUnimplemented) {
        // The lowering leaves this case to the library; so do we, without what it began.
        builder_.program().buffers.resize(buffers);
        builder_.program().operations.resize(operations);
      } else {
        return absl::Status(attempt.status().code(),
                            absl::StrCat(Describe(node), ": ", attempt.status().message()));
      }
    }
    if (lowered) {
      TENSORD_RETURN_IF_ERROR(VerifyResults(node, results));
    } else {
      TENSORD_ASSIGN_OR_RETURN(results, LowerExtern(node));
    }
    const int value = graph_.FirstNodeValue() + i;
    chains_[value] = ChainOf(node) + 1;
    for (size_t o = 0; o < results.size(); ++o) {
      if (!results[o].defined()) continue;
      const bool shared = !results[o].view() && shared_.count({value, static_cast<int>(o)}) > 0;
      const ValueId result(value, static_cast<int>(o));
      const bool stays = uses_.LastReader(result) == static_cast<int>(graph_.nodes.size());
      if (shared || ShouldRealize(results[o], uses_.Count(result), stays, chains_[value])) {
        results[o] = builder_.RealizeAs(results[o], BufferStrides(node.outputs[o]));
      }
    }
    values_[value] = std::move(results);
    return absl::OkStatus();
  }

  // The longest chain of lazy values that ends in this node's arguments.
  int ChainOf(const Node& node) const {
    int longest = 0;
    ForEachValue(node.args, [&](const ArgumentValue& ref) {
      if (!values_[ref.value][ref.output].view()) longest = std::max(longest, chains_[ref.value]);
    });
    return longest;
  }

  // ---- Which nodes become code of ours

  // Code is generated for one device and for real numbers; anything else is the library's.
  bool CanGenerate(const Node& node) const {
    for (const TensorType& type : node.outputs) {
      if (type.dtype == v1::DTYPE_UNSPECIFIED) continue;
      if (type.device != device_ || IsComplex(type.dtype)) return false;
    }
    bool ok = true;
    ForEachValue(node.args, [&](const ArgumentValue& ref) {
      const TensorType& type = TypeOf(ref.value, ref.output);
      if (IsComplex(type.dtype)) ok = false;
      if (type.device != device_ && !type.sizes.empty()) ok = false;
    });
    return ok;
  }

  // Eager takes zero-dim CPU tensors beside CUDA ones; kernels cannot read them there, so for the
  // time of one lowering copies take their places. Returns what was there.
  using Borrowed = std::map<ValueId, Tensor>;
  Borrowed BringNumbersOver(const Node& node) {
    Borrowed originals;
    ForEachValue(node.args, [&](const ArgumentValue& ref) {
      Tensor& t = values_[ref.value][ref.output];
      if (!t.defined() || TypeOf(ref.value, ref.output).device == device_) return;
      // A second reference already finds the copy.
      if (!originals.emplace(std::pair(ref.value, ref.output), t).second) return;
      t = CopyToDevice(builder_, t, device_);
    });
    return originals;
  }

  // What a library call reads needs memory, once for all calls that read it.
  void RealizeArguments(const Node& node) {
    ForEachValue(node.args, [&](const ArgumentValue& ref) {
      Tensor& t = InShape(ref);
      if (!t.view()) t = builder_.RealizeAs(t, BufferStrides(TypeOf(ref.value, ref.output)));
    });
  }

  // ---- Library calls

  absl::StatusOr<std::vector<Tensor>> LowerExtern(const Node& node) {
    const Operator* op = FindOperator(node.op);
    if (HasTrait(op, kNoEffect)) return std::vector<Tensor>(node.outputs.size());
    const TensorSource tensor_of = [&](const ArgumentValue& ref) {
      Tensor& t = InShape(ref);
      const TensorType& type = TypeOf(ref.value, ref.output);
      // Library operators choose the layout of their results by that of their arguments, so each
      // must come as in eager. Complex numbers no kernel of ours can copy; the runtime mends the
      // layout of results.
      if (!IsComplex(type.dtype) && !HasStrides(t, type.strides)) {
        const Tensor there = WithStrides(builder_, t, type.strides);
        if (!t.view()) t = there;
        return there;
      }
      return t;
    };
    if (!WritesArgument(op)) return CallLibrary(builder_, node, tensor_of);
    CallLibraryInPlace(builder_, node, tensor_of);
    const ValueId written = ValueOf(node.args[op->written]);
    return std::vector<Tensor>{values_[written.first][written.second]};
  }

  // ---- Writes to inputs

  // Lazy values that read what this node writes, and that are read by it or later, are computed
  // first.
  void BeforeMutation(int i) {
    const Node& node = graph_.nodes[i];
    const ValueId target = ValueOf(node.args[FindOperator(node.op)->written]);
    const Tensor& destination = values_[target.first][target.second];
    TENSORD_CHECK(destination.view(), Describe(node));
    const BufferId written = destination.view()->buffer;
    for (int v = 0; v < graph_.FirstNodeValue() + i; ++v) {
      for (size_t o = 0; o < values_[v].size(); ++o) {
        Tensor& t = values_[v][o];
        const int last = uses_.LastReader({v, static_cast<int>(o)});
        if (!t.defined() || last < i) continue;
        if (t.view()) {
          if (t.view()->buffer == written && IsCopyInEager(v))
            t = Copied(t, v, static_cast<int>(o));
          continue;
        }
        const Loads& loads = CachedLoads(v, static_cast<int>(o), t);
        if (loads.buffers.count(written) == 0) continue;
        if (last == i && ReadsOnlyWhereItWrites(node, v, destination, loads)) continue;
        t = builder_.RealizeAs(t, BufferStrides(TypeOf(v, static_cast<int>(o))));
      }
    }
  }

  // Eager gives this value memory of its own; a lowering may still have found nothing to do and
  // have handed on its argument (a dropout that is off).
  bool IsCopyInEager(int value) const {
    if (NodeOf(value) < 0) return false;
    const Operator* op = FindOperator(graph_.nodes[NodeOf(value)].op);
    return IsLowered(op) && op->kind != OperatorKind::kView && !WritesArgument(op);
  }

  Tensor Copied(const Tensor& t, int value, int output) {
    return builder_.RealizeAs(LazyCopy(builder_, t), BufferStrides(TypeOf(value, output)));
  }

  // x.copy_(f(x)) needs no buffer when each element of the result reads only its own place.
  bool ReadsOnlyWhereItWrites(const Node& node, int source, const Tensor& destination,
                              const Loads& loads) const {
    if (node.op != "aten::copy_") return false;
    const ValueId from = ValueOf(Argument(node, "src"));
    if (from.first != source) return false;
    if (!SameSizes(graph_.TypeOf(from).sizes, destination.sizes())) return false;
    Expr place = destination.view()->offset;
    const std::vector<Expr> index = LoopIndex(destination.sizes());
    for (size_t d = 0; d < index.size(); ++d) place += index[d] * destination.view()->strides[d];
    return std::all_of(loads.indices.begin(), loads.indices.end(), [&](const auto& load) {
      return load.first != destination.view()->buffer || load.second == place;
    });
  }

  const Loads& CachedLoads(int value, int output, const Tensor& t) {
    auto [it, is_new] = loads_.try_emplace({value, output});
    if (is_new) it->second = LoadsOf(t);
    return it->second;
  }

  // ---- Outputs

  void Output(const ArgumentValue& output) {
    ProgramOutput out;
    if (output.kind == ArgumentValue::kInteger) {
      out.kind = ProgramOutput::kInteger;
      out.integer = output.integer;
    } else if (output.kind == ArgumentValue::kValue) {
      out.kind = ProgramOutput::kTensor;
      if (const int node = NodeOf(output.value); node >= 0) {
        builder_.set_origin(graph_.nodes[node].name);
      }
      Tensor& t = InShape(output);
      const TensorType& type = TypeOf(output.value, output.output);
      // Constants belong to the program and are shared by all its calls; an input must not be
      // handed out as if it were a fresh result.
      if (t.view() && (KindOf(t) == BufferKind::kConstant ||
                       (KindOf(t) == BufferKind::kInput && IsCopyInEager(output.value)))) {
        t = LazyCopy(builder_, t);
      }
      if (!IsComplex(type.dtype)) t = WithStrides(builder_, t, type.strides);
      out.view = *t.view();
      if (KindOf(t) != BufferKind::kInput) {
        builder_.program().buffers[out.view.buffer].returned = true;
      }
    }
    builder_.program().outputs.push_back(std::move(out));
  }

  BufferKind KindOf(const Tensor& t) { return builder_.program().buffers[t.view()->buffer].kind; }

  const Graph& graph_;
  const v1::DeviceType device_;
  Builder builder_;
  std::vector<std::vector<Tensor>> values_;  // by value number, by result
  const Uses uses_;
  std::vector<int> chains_;  // by value number: how many lazy values stand behind it, at most
  std::map<ValueId, Loads> loads_;
  std::set<ValueId> shared_;     // that several outputs are views of
  std::set<ValueId> in_shapes_;  // that calls and outputs want in several shapes
};

}  // namespace

absl::StatusOr<Program> LowerGraph(const Graph& graph, bool deterministic) {
  return Lowerer(graph, DeviceOf(graph), deterministic).Run();
}

}  // namespace tensord::compiler
