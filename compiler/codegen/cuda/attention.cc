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
Nest NestOf(const Attention& attention, const LoopOp& function) {
  Nest nest{.shape = NestShape::kFlat, .outer = function.sizes};
  nest.members.push_back({.op = -1, .loops = function, .has_inner = false});
  nest.local.insert(attention.products.begin(), attention.products.end());
  return nest;
}

class FunctionBody : public CudaBody {
 public:
  FunctionBody(const Program& program, const Attention& attention, const Nest& nest,
               KernelInterface* interface, const CudaPlan& plan)
      : CudaBody(program, nest, interface, plan), attention_(attention) {
    SetMember(&nest.members[0]);
  }

  ir::LocalFunction Lower(const std::string& name) {
    ir::LocalFunction function{.name = name, .result = ir::ScalarType(kFloat32)};
    for (const ir::Value& product : Products()) {
      function.parameters.push_back(
          {ir::As<ir::Variable>(product)->name, ir::ScalarType(kFloat32), /*constant=*/true});
    }
    for (size_t loop = 0; loop < member().loops.sizes.size(); ++loop) {
      function.parameters.push_back(
          {LoopName(static_cast<int>(loop)), ir::kIndexType, /*constant=*/true});
    }
    const ir::Value value = Use(BodyLowering::Lower(member().loops.stores[0].value), 0);
    const ir::Block body = TakeUnit();
    function.body = Declarations();
    ir::Append(&function.body, body);
    function.body.push_back({ir::Return{ir::LaneOf(value, 0)}});
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
  ir::Value ReadLocal(BufferId buffer) override {
    const auto at = std::ranges::find(attention_.products, buffer) - attention_.products.begin();
    return ir::CallOf("broadcast", {ir::Value(1)}, {Products()[at]});
  }

 private:
  std::vector<ir::Value> Products() const {
    std::vector<ir::Value> all;
    for (size_t i = 0; i < attention_.products.size(); ++i) {
      all.push_back(ir::Var(absl::StrCat("product", i), ir::ScalarType(kFloat32)));
    }
    return all;
  }

  const Attention& attention_;
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
    std::vector<ir::Value> functions;
    bool checks = false;
    for (size_t i = 0; i < attention_.functions.size(); ++i) {
      const Nest nest = NestOf(attention_, attention_.functions[i]);
      FunctionBody body(program_, attention_, nest, &interface_, alone);
      const std::string name = absl::StrCat("function", i);
      function.body.push_back({body.Lower(name)});
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
