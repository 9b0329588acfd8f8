// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cuda/attention.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/codegen/cuda/body.h"
#include "compiler/codegen/print.h"

namespace tensord::compiler {
namespace {

const char* NameOf(Attention::Kind kind) {
  switch (kind) {
    case Attention::kForward:
      return "attention_forward";
    case Attention::kQueryGradient:
      return "attention_query_gradient";
    case Attention::kKeyGradients:
      return "attention_key_gradients";
  }
}

// Whether an index was out of range.
ir::Value IsOutside() { return ir::Var("outside", ir::Condition(false).type()); }

// A function of one score: of products, and where it stands.
Nest NestOf(const LoopOp& function) {
  Nest nest{.shape = NestShape::kFlat, .outer = function.sizes};
  nest.members.push_back({.op = -1, .loops = function, .has_inner = false});
  return nest;
}

using QueryValue = CudaAttentionPlan::QueryValue;

class FunctionBody : public CudaBody {
 public:
  // Where the nest has the plan's values of a query as its own, it is given them.
  FunctionBody(const Program& program, const Attention& attention, const Nest& nest,
               const CudaAttentionPlan& of, KernelInterface* interface, const CudaPlan& plan)
      : CudaBody(program, nest, interface, plan), attention_(attention), plan_of_(of) {
    SetMember(&nest.members[0]);
  }

  // The function of a score.
  ir::LocalFunction Score(const std::string& name) {
    ir::LocalFunction function{.name = name, .result = ir::ScalarType(kFloat32)};
    for (size_t i = 0; i < attention_.products.size(); ++i) {
      function.parameters.push_back(Constant(Product(i)));
    }
    function.parameters.push_back(Constant(OfQuery()));
    AddLoops(static_cast<int>(member().loops.sizes.size()), &function);
    const ir::Value value = Use(BodyLowering::Lower(member().loops.stores[0].value), 0);
    Finish(ir::LaneOf(value, 0), &function);
    return function;
  }

  // The function of a query that gives all values.
  ir::LocalFunction Query(const std::string& name) {
    ir::LocalFunction function{.name = name, .result = OfQuery().type()};
    AddLoops(kQueryLoops, &function);
    std::vector<ir::Value> values;
    for (const QueryValue& value : plan_of_.query_values) {
      values.push_back(Use(BodyLowering::Lower(value.load), 0));
    }
    if (values.empty())
      values.push_back(ir::CallOf("broadcast", {ir::Value(1)}, {ir::NumberOf(kFloat32, 0, 0)}));
    Finish(ir::CallOf("joined", {ir::Value(plan_of_.query_lanes())}, std::move(values)), &function);
    return function;
  }

  bool checks() const { return checks_; }

 protected:
  // No function may be called while products are under way, not even one that never returns.
  ir::Value CheckIndex(const IndexRule& rule, const ir::Value& index, const Expr& size,
                       const ir::Value& on) override {
    checks_ = true;
    std::vector<ir::Value> operands = {index, Extent(size), IsOutside()};
    if (on) operands.push_back(on);
    return ir::CallOf(rule.wraps ? "noted_wrapped_index" : "noted_index", std::move(operands));
  }
  // Gradients and their weights are rounded to 16 bits. Not so what another exponential is taken
  // of, which makes errors larger, and forward takes the same of.
  std::string ComputeFunction(const Inst& inst) const override {
    const bool is_short = attention_.kind != Attention::kForward && inst.op == Op::k_exp &&
                          inst.dtype == kFloat32 && !IsExponent(inst);
    return is_short ? "exp_approx" : CudaBody::ComputeFunction(inst);
  }
  ir::Value ReadLocal(BufferId buffer) override {
    const std::vector<QueryValue>& values = plan_of_.query_values;
    const auto value = std::ranges::find(values, buffer, &QueryValue::buffer);
    const auto product = std::ranges::find(attention_.products, buffer);
    return ir::CallOf(
        "broadcast", {ir::Value(1)},
        {value != values.end() ? ir::LaneOf(OfQuery(), static_cast<int>(value - values.begin()))
                               : Product(product - attention_.products.begin())});
  }

 private:
  // Whether an exponential is computed of it.
  bool IsExponent(const Inst& of) const {
    const std::vector<Inst>& insts = member().loops.block.insts;
    std::vector<bool> depends(insts.size());
    for (size_t i = 0; i < insts.size(); ++i) {
      const bool on_it = std::ranges::any_of(
          insts[i].args, [&](int arg) { return &insts[arg] == &of || depends[arg]; });
      if (on_it && insts[i].op == Op::k_exp) return true;
      depends[i] = on_it;
    }
    return false;
  }

  static constexpr int kQueryLoops = 3;  // batch, head, query

  static ir::Value Product(size_t i) {
    return ir::Var(absl::StrCat("product", i), ir::ScalarType(kFloat32));
  }
  ir::Value OfQuery() const {
    return ir::Var("of_query", ir::VectorType(kFloat32, plan_of_.query_lanes()));
  }
  static ir::Parameter Constant(const ir::Value& variable) {
    return {ir::As<ir::Variable>(variable)->name, variable.type(), /*constant=*/true};
  }
  static void AddLoops(int loops, ir::LocalFunction* function) {
    for (int loop = 0; loop < loops; ++loop) {
      function->parameters.push_back({LoopName(loop), ir::kIndexType, /*constant=*/true});
    }
  }
  void Finish(const ir::Value& result, ir::LocalFunction* function) {
    const ir::Block body = TakeUnit();
    function->body = Declarations();
    ir::Append(&function->body, body);
    function->body.push_back({ir::Return{result}});
  }

  const Attention& attention_;
  const CudaAttentionPlan& plan_of_;
  bool checks_ = false;
};

class AttentionLowering {
 public:
  AttentionLowering(const Program& program, const ExternOp& op, const CudaAttentionPlan& plan)
      : program_(program), op_(op), attention_(*op.attention), plan_(plan) {}

  KernelSource Lower() {
    const CudaPlan alone{.threads = plan_.threads, .kind = CudaElements{}};
    ir::Function function{.name = "attention0",
                          .threads = plan_.threads,
                          .group = plan_.threads,
                          .shared_bytes = plan_.shared_bytes};
    function.parameters = {{"args", ir::kArgumentsType},
                           {"block", ir::kIntType, /*constant=*/true},
                           {"blocks", ir::kIntType, /*constant=*/true},
                           {"shared", ir::kGroupMemoryType}};
    const Nest of_query = NestOf(plan_.functions[0]);
    FunctionBody query(program_, attention_, of_query, plan_, &interface_, alone);
    function.body.push_back({query.Query("values_of_query")});
    std::vector<ir::Value> functions = {ir::Var("values_of_query", ir::kFunctionType)};
    bool checks = false;
    for (size_t i = 0; i < plan_.functions.size(); ++i) {
      Nest nest = NestOf(plan_.functions[i]);
      nest.local.insert(attention_.products.begin(), attention_.products.end());
      for (const QueryValue& value : plan_.query_values) nest.local.insert(value.buffer);
      FunctionBody body(program_, attention_, nest, plan_, &interface_, alone);
      const std::string name = absl::StrCat("function", i);
      function.body.push_back({body.Score(name)});
      functions.push_back(ir::Var(name, ir::kFunctionType));
      checks = checks || body.checks();
    }
    if (checks) {
      function.body.insert(function.body.begin(), ir::Mutable("outside", ir::Condition(false)));
    }
    const ir::Value call = Call(functions);
    ir::Block inside = std::move(bound_);
    inside.push_back({ir::BindShared{"tiles", ir::BytesType(), 0, plan_.shared_bytes}});
    inside.push_back(ir::Do(call));
    function.body.push_back({ir::Scope{std::move(inside)}});
    if (checks) function.body.push_back(ir::Do(ir::CallOf("fail_if", {IsOutside()})));
    return Source(std::move(function));
  }

 private:
  KernelSource Source(ir::Function function) {
    KernelSource source;
    source.ir.device = ir::Kernel::kCuda;
    source.ir.wide_index = plan_.wide_index;
    source.ir.functions.push_back(std::move(function));
    const std::string name = absl::StrCat("tensord_", NameOf(attention_.kind));
    ir::CudaEntry entry{.name = name,
                        .threads = plan_.threads,
                        .resident = plan_.resident,
                        .shared_bytes = plan_.shared_bytes};
    std::vector<ir::Value> operands = {ir::Var("args", ir::kArgumentsType), BlockNumber(), Blocks(),
                                       GroupMemory()};
    entry.parts.push_back({ir::CallOfFunction("attention0", std::move(operands)), {}});
    source.ir.cuda.push_back(std::move(entry));
    source.functions.push_back({name, CudaGeometry{plan_.blocks, plan_.threads, plan_.shared_bytes,
                                                   /*waits_itself=*/false}});
    interface_.Describe(&source.ir);
    source.source = PrintCuda(source.ir);
    source.launch = interface_.launch();
    source.launch.scratch_of_launch = true;
    source.nodes = {op_.origin};
    return source;
  }

  const BufferView& Arg(int i) const { return std::get<BufferView>(op_.args[i].value); }

  ir::Value Integer(const Expr& value) {
    if (const auto constant = value.AsConstant()) return ir::Value(*constant);
    const int position = interface_.Integer(value);
    if (integers_.insert(position).second) bound_.push_back(interface_.BindInteger(position));
    return KernelInterface::IntegerNamed(position);
  }

  // The address of a view's first element.
  ir::Value Address(const BufferView& view, bool written = false) {
    const DType dtype = program_.buffers[view.buffer].dtype;
    const int position = interface_.Buffer(view.buffer);
    if (written) interface_.MarkWritten(view.buffer);
    if (pointers_.insert(position).second) {
      bound_.push_back(interface_.BindPointer(position, dtype, written));
    }
    const ir::Value pointer = KernelInterface::PointerNamed(position, dtype, written);
    return view.offset.Is(0) ? pointer : pointer + Integer(view.offset);
  }

  ir::Value Rows(const BufferView& view, bool written = false) {
    const DType dtype = program_.buffers[view.buffer].dtype;
    return ir::CallOf(written ? "result_rows" : "rows", {ir::ScalarType(dtype)},
                      {Address(view, written), Integer(view.strides[0]), Integer(view.strides[1]),
                       Integer(view.strides[2])});
  }

  // Lists number `first` and the next one among the arguments, by their place.
  ir::Value Lists(int first, int before) {
    if (first >= attention_.lists) return ir::CallOf("all_blocks", {});
    const BufferView &counts = Arg(before + first), &blocks = Arg(before + first + 1);
    std::vector<ir::Value> operands = {Address(counts), Address(blocks)};
    for (const Expr& size : blocks.sizes) operands.push_back(Integer(size));
    return ir::CallOf("blocks", std::move(operands));
  }

  ir::Value Call(const std::vector<ir::Value>& functions) {
    const bool is_forward = attention_.kind == Attention::kForward;
    const int rows = is_forward ? 3 : 4;
    std::vector<ir::Value> operands = {BlockNumber(), ir::Var("tiles", ir::BytesType())};
    for (int i = 0; i < rows; ++i) operands.push_back(Rows(Arg(i)));
    for (size_t i = 0; i < op_.outs.size(); ++i) {
      const bool is_number = is_forward && i > 0;
      operands.push_back(is_number ? Address(op_.outs[i], true) : Rows(op_.outs[i], true));
    }
    const BufferView &query = Arg(0), &key = Arg(1), &value = Arg(2);
    operands.push_back(
        ir::CallOf("attention_sizes",
                   {Integer(query.sizes[1]), Integer(key.sizes[1]), Integer(query.sizes[2]),
                    Integer(key.sizes[2]), Integer(key.sizes[3]), Integer(value.sizes[3]),
                    ir::Value(attention_.block_queries), ir::Value(attention_.block_keys)}));
    operands.push_back(Lists(0, rows));
    operands.push_back(Lists(2, rows));
    if (is_forward) operands.push_back(ir::NumberOf(kFloat32, plan_.factor, 0));
    operands.insert(operands.end(), functions.begin(), functions.end());
    return ir::CallOf(
        NameOf(attention_.kind),
        {ir::ScalarType(program_.buffers[query.buffer].dtype), ir::Value(plan_.columns),
         ir::Value(plan_.value_columns), ir::Value(plan_.rows)},
        std::move(operands));
  }

  const Program& program_;
  const ExternOp& op_;
  const Attention& attention_;
  const CudaAttentionPlan& plan_;
  KernelInterface interface_;
  ir::Block bound_;  // names of arguments
  std::set<int> integers_, pointers_;
};

}  // namespace

KernelSource GenerateCudaAttention(const Program& program, const ExternOp& op,
                                   const CudaAttentionPlan& plan) {
  return AttentionLowering(program, op, plan).Lower();
}

}  // namespace tensord::compiler
