#include "compiler/decompose/lower_graph.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "compiler/decompose/extern_call.h"
#include "compiler/decompose/layout.h"
#include "compiler/decompose/loads.h"
#include "compiler/decompose/lowering.h"
#include "compiler/decompose/verify_args.h"

namespace tensord::compiler {
namespace {

absl::Status Invalid(const Node& node, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(Describe(node), ": ", what));
}

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

bool IsIn(std::span<const Operator> table, const Operator* op) {
  return op >= table.data() && op < table.data() + table.size();
}

void ForEachValue(const ArgumentValue& arg,
                  const std::function<void(const ArgumentValue&)>& visit) {
  if (arg.kind == ArgumentValue::kValue) visit(arg);
  for (const ArgumentValue& item : arg.items) ForEachValue(item, visit);
}

class Lowerer {
 public:
  Lowerer(const Graph& graph, v1::DeviceType device, bool deterministic)
      : graph_(graph), device_(device), builder_(device, deterministic) {}

  absl::StatusOr<Program> Run() {
    FindUses();
    FindRoots();
    FindSharedResults();
    FindShapes();
    Sources();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (needed_[i]) TENSORD_RETURN_IF_ERROR(Lower(static_cast<int>(i)));
    }
    for (const ArgumentValue& output : graph_.outputs) Output(output);
    Program program = std::move(builder_.program());
    DropDeadOperations(program, [](const ExternOp& op) { return IsRandomOperator(op.op); });
    return program;
  }

 private:
  struct Use {
    int count = 0;
    int last = -1;  // the last node that reads it; the number of nodes when an output does
  };

  int NodeOf(int value) const { return value - graph_.FirstNodeValue(); }

  const TensorType& TypeOf(int value, int output) const { return graph_.TypeOf(value, output); }

  // Which nodes run, and how often each result is read. A node runs when something that runs reads
  // it, when it writes an input, or when leaving it out would change the random numbers that
  // follow.
  void FindUses() {
    const int nodes = static_cast<int>(graph_.nodes.size());
    needed_.assign(nodes, false);
    uses_.resize(graph_.FirstNodeValue() + nodes);
    for (int v = 0; v < static_cast<int>(uses_.size()); ++v) {
      const bool is_node = NodeOf(v) >= 0;
      uses_[v].resize(is_node ? graph_.nodes[NodeOf(v)].outputs.size() : 1);
    }
    const auto read = [&](int reader) {
      return [&, reader](const ArgumentValue& arg) {
        Use& use = uses_[arg.value][arg.output];
        ++use.count;
        use.last = std::max(use.last, reader);
        if (const int node = NodeOf(arg.value); node >= 0) needed_[node] = true;
      };
    };
    for (const ArgumentValue& output : graph_.outputs) ForEachValue(output, read(nodes));
    for (int i = nodes - 1; i >= 0; --i) {
      const Node& node = graph_.nodes[i];
      const Operator* op = FindOperator(node.op);
      const bool effect = (op != nullptr && op->mutates_first) || IsRandomOperator(node.op) ||
                          (node.outputs.empty() && !IsIgnoredOperator(node.op));
      needed_[i] = needed_[i] || effect;
      if (!needed_[i]) continue;
      for (const ArgumentValue& arg : node.args) ForEachValue(arg, read(i));
    }
  }

  using Ref = std::pair<int, int>;

  // Results of the program that are views of one computed value share its memory in eager, so that
  // value must have a buffer before the views are taken.
  void FindSharedResults() {
    std::map<Ref, int> views;
    for (const ArgumentValue& output : graph_.outputs) {
      if (output.kind == ArgumentValue::kValue) ++views[RootOf(output)];
    }
    for (const auto& [root, count] : views) {
      if (count > 1) shared_.insert(root);
    }
  }

  // Values that library calls and results want in memory in several shapes, as views of the whole:
  // it is there once.
  void FindShapes() {
    std::map<Ref, std::set<Ref>> shapes;
    const auto want = [&](const ArgumentValue& arg) {
      const Ref root = RootOf(arg);
      const TensorType &type = TypeOf(arg.value, arg.output),
                       &whole = TypeOf(root.first, root.second);
      if (type.dtype == whole.dtype && sym::Product(type.sizes) == sym::Product(whole.sizes)) {
        shapes[root].emplace(arg.value, arg.output);
      }
    };
    for (const ArgumentValue& output : graph_.outputs) ForEachValue(output, want);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!needed_[i] || !MayBeCall(graph_.nodes[i])) continue;
      for (const ArgumentValue& arg : graph_.nodes[i].args) ForEachValue(arg, want);
    }
    for (const auto& [root, wanted] : shapes) {
      if (wanted.size() > 1) in_shapes_.insert(root);
    }
  }

  // Whether an operator (null: unknown) is not left to the library for what the node is.
  bool MayLower(const Node& node, const Operator* op) const {
    return op != nullptr && op->IsLoweredOn(device_) &&
           (!node.library || IsIn(ViewOperators(), op));
  }

  // Whether a node reads its arguments from memory by a library call, as far as can be told before
  // it is lowered.
  bool MayBeCall(const Node& node) const {
    const Operator* op = FindOperator(node.op);
    return !MayLower(node, op) || IsIn(MatrixOperators(), op);
  }

  // A value that is about to be in memory. What it is a view of comes there first, where that is
  // wanted in several shapes, and it is a view of that.
  Tensor& InShape(const ArgumentValue& ref) {
    Tensor& t = values_[ref.value][ref.output];
    if (!t.defined() || t.view()) return t;
    const Ref root = RootOf(ref);
    if (in_shapes_.count(root) == 0) return t;
    Tensor& whole = values_[root.first][root.second];
    if (!whole.view()) {
      whole = builder_.RealizeAs(whole, BufferStrides(TypeOf(root.first, root.second)));
    }
    TakeView({ref.value, ref.output}, root);
    return t;
  }

  // A view that was taken of a value before that had memory, and the views behind it, anew.
  void TakeView(const Ref& ref, const Ref& root) {
    if (ref == root || values_[ref.first][ref.second].view()) return;
    const Node& node = graph_.nodes[NodeOf(ref.first)];
    TakeView({node.args[0].value, node.args[0].output}, root);
    Results views = FindOperator(node.op)->lower(builder_, Call(graph_, node, values_));
    if (views.ok() && (*views)[ref.second].view()) {
      values_[ref.first][ref.second] = (*views)[ref.second];
    }
  }

  // The value whose memory a result is a view of; itself when it is no view.
  Ref RootOf(const ArgumentValue& result) const {
    const Ref& root = roots_[result.value];
    return root.first >= 0 ? root : Ref(result.value, result.output);
  }

  void FindRoots() {
    roots_.assign(uses_.size(), {-1, -1});
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const Operator* op = FindOperator(node.op);
      const bool is_view = op != nullptr && IsIn(ViewOperators(), op) && !node.args.empty() &&
                           node.args[0].kind == ArgumentValue::kValue;
      if (is_view) roots_[graph_.FirstNodeValue() + i] = RootOf(node.args[0]);
    }
  }

  void Sources() {
    values_.resize(uses_.size());
    chains_.resize(uses_.size());
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
    const Operator* op = FindOperator(node.op);
    if (op != nullptr) TENSORD_RETURN_IF_ERROR(VerifyArguments(node, *op));
    if (op != nullptr && op->mutates_first) TENSORD_RETURN_IF_ERROR(BeforeMutation(i));
    std::vector<Tensor> results;
    bool lowered = false;
    if (MayLower(node, op) && CanGenerate(node)) {
      if (IsIn(MatrixOperators(), op)) RealizeArguments(node);
      const Borrowed borrowed = BringNumbersOver(node);
      const Program& program = builder_.program();
      const size_t buffers = program.buffers.size(), operations = program.operations.size();
      Results attempt = op->lower(builder_, Call(graph_, node, values_));
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
      const Use& use = uses_[value][o];
      const bool stays = use.last == static_cast<int>(graph_.nodes.size());
      if (shared || ShouldRealize(results[o], use.count, stays, chains_[value])) {
        results[o] = builder_.RealizeAs(results[o], BufferStrides(node.outputs[o]));
      }
    }
    values_[value] = std::move(results);
    for (int o = 0; o < static_cast<int>(values_[value].size()); ++o) {
      if (values_[value][o].defined() && MaySeeWrites({value, o})) waiting_.emplace_back(value, o);
    }
    return absl::OkStatus();
  }

  // The longest chain of lazy values that ends in this node's arguments.
  int ChainOf(const Node& node) const {
    int longest = 0;
    for (const ArgumentValue& arg : node.args) {
      ForEachValue(arg, [&](const ArgumentValue& ref) {
        if (!values_[ref.value][ref.output].view()) longest = std::max(longest, chains_[ref.value]);
      });
    }
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
    for (const ArgumentValue& arg : node.args) {
      ForEachValue(arg, [&](const ArgumentValue& ref) {
        const TensorType& type = TypeOf(ref.value, ref.output);
        if (IsComplex(type.dtype)) ok = false;
        if (type.device != device_ && !type.sizes.empty()) ok = false;
      });
    }
    return ok;
  }

  // Eager takes zero-dim CPU tensors beside CUDA ones; kernels cannot read them there, so for the
  // time of one lowering copies take their places. Returns what was there.
  using Borrowed = std::map<Ref, Tensor>;
  Borrowed BringNumbersOver(const Node& node) {
    Borrowed originals;
    for (const ArgumentValue& arg : node.args) {
      ForEachValue(arg, [&](const ArgumentValue& ref) {
        Tensor& t = values_[ref.value][ref.output];
        if (!t.defined() || TypeOf(ref.value, ref.output).device == device_) return;
        // A second reference already finds the copy.
        if (!originals.emplace(std::pair(ref.value, ref.output), t).second) return;
        t = CopyToDevice(builder_, t, device_);
      });
    }
    return originals;
  }

  // What a library call reads needs memory, once for all calls that read it.
  void RealizeArguments(const Node& node) {
    for (const ArgumentValue& arg : node.args) {
      ForEachValue(arg, [&](const ArgumentValue& ref) {
        Tensor& t = InShape(ref);
        if (!t.view()) t = builder_.RealizeAs(t, BufferStrides(TypeOf(ref.value, ref.output)));
      });
    }
  }

  // ---- Library calls

  absl::StatusOr<std::vector<Tensor>> LowerExtern(const Node& node) {
    TENSORD_RETURN_IF_ERROR(CheckExtern(node));
    if (IsIgnoredOperator(node.op)) return std::vector<Tensor>(node.outputs.size());
    const bool writes = node.op == "aten::copy_";
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
    if (!writes) return CallLibrary(builder_, node, tensor_of);
    CallLibraryInPlace(builder_, node, tensor_of);
    return std::vector<Tensor>{values_[node.args[0].value][node.args[0].output]};
  }

  // ---- Writes to inputs

  // Lazy values that read what this node writes, and that are read by it or later, are computed
  // first.
  absl::Status BeforeMutation(int i) {
    const Node& node = graph_.nodes[i];
    if (node.args.empty() || node.args[0].kind != ArgumentValue::kValue) {
      return Invalid(node, "writes to what is not a tensor");
    }
    const ArgumentValue& target = node.args[0];
    const Tensor& destination = values_[target.value][target.output];
    if (!destination.view() ||
        builder_.program().buffers[destination.view()->buffer].kind != BufferKind::kInput) {
      return Invalid(node, "only inputs may be written; make the graph functional");
    }
    const BufferId written = destination.view()->buffer;
    std::erase_if(waiting_, [&](const Ref& ref) {
      return uses_[ref.first][ref.second].last < i || !MaySeeWrites(ref);
    });
    for (const auto& [v, o] : waiting_) {
      Tensor& t = values_[v][o];
      if (t.view()) {
        if (t.view()->buffer == written) t = Copied(t, v, o);
        continue;
      }
      const Loads& loads = CachedLoads(v, o, t);
      if (loads.buffers.count(written) == 0) continue;
      if (uses_[v][o].last == i && ReadsOnlyWhereItWrites(node, v, destination, loads)) continue;
      t = builder_.RealizeAs(t, BufferStrides(TypeOf(v, o)));
    }
    return absl::OkStatus();
  }

  // A lazy value may read an input; what should be a copy may be a view of one.
  bool MaySeeWrites(const Ref& ref) {
    const Tensor& t = values_[ref.first][ref.second];
    return !t.view() || (KindOf(t) == BufferKind::kInput && IsCopyInEager(ref.first));
  }

  // Eager gives this value memory of its own; a lowering may still have found nothing to do and
  // have handed on its argument (a dropout that is off).
  bool IsCopyInEager(int value) const {
    if (NodeOf(value) < 0) return false;
    const Operator* op = FindOperator(graph_.nodes[NodeOf(value)].op);
    return op != nullptr && !IsIn(ViewOperators(), op) && !op->mutates_first;
  }

  Tensor Copied(const Tensor& t, int value, int output) {
    return builder_.RealizeAs(LazyCopy(builder_, t), BufferStrides(TypeOf(value, output)));
  }

  // x.copy_(f(x)) needs no buffer when each element of the result reads only its own place.
  bool ReadsOnlyWhereItWrites(const Node& node, int source, const Tensor& destination,
                              const Loads& loads) const {
    if (node.op != "aten::copy_" || node.args[1].kind != ArgumentValue::kValue ||
        node.args[1].value != source) {
      return false;
    }
    if (!SameSizes(TypeOf(source, node.args[1].output).sizes, destination.sizes())) return false;
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
  std::vector<std::vector<Use>> uses_;
  std::vector<Ref> roots_;    // by value number: what its results are views of; -1: of nothing
  std::vector<int> chains_;   // by value number: how many lazy values stand behind it, at most
  std::vector<bool> needed_;  // by node
  std::vector<Ref> waiting_;  // in order: what a write to an input may change until it is read
  std::map<Ref, Loads> loads_;
  std::set<Ref> shared_;     // that several outputs are views of
  std::set<Ref> in_shapes_;  // that calls and outputs want in several shapes
};

}  // namespace

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

absl::StatusOr<Program> LowerGraph(const Graph& graph, bool deterministic) {
  return Lowerer(graph, DeviceOf(graph), deterministic).Run();
}

}  // namespace tensord::compiler
