// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/extern_call.h"

#include <absl/strings/string_view.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/check.h"
#include "compiler/graph/arguments.h"
#include "compiler/graph/layout.h"
#include "compiler/ops/operators.h"
#include "compiler/sym/expr_proto.h"

namespace tensord::compiler {
namespace {

ExternArg ToExternArg(Builder& b, const ArgumentValue& arg, const TensorSource& tensor_of) {
  if (arg.kind == ArgumentValue::kValue) return b.TensorArg(tensor_of(arg));
  if (arg.kind != ArgumentValue::kList) return {PlainArgument(arg)};
  ExternArgList items;
  for (const ArgumentValue& item : arg.items) items.push_back(ToExternArg(b, item, tensor_of));
  return {std::move(items)};
}

std::pair<std::string, std::string> SplitOverload(const std::string& op) {
  const size_t dot = op.find('.');
  return {op.substr(0, dot), dot == std::string::npos ? "" : op.substr(dot + 1)};
}

ExternArgList ToExternArgs(Builder& b, const Node& node, const TensorSource& tensor_of) {
  ExternArgList args;
  for (const ArgumentValue& arg : node.args) args.push_back(ToExternArg(b, arg, tensor_of));
  return args;
}

// tensord::seed(device?) is Python in the job; what it calls is not:
// aten::randint.low(low, high, size, dtype?, layout?, device?, pin_memory?).
ExternArgList SeedArgs(const Node& node) {
  using Limits = std::numeric_limits<int64_t>;
  v1::Argument dtype;
  dtype.set_dtype(v1::DTYPE_INT64);
  const ExternArg device = ScalarArg(Argument(node, "device"));
  const ExternArg least = ScalarArg(Limits::min()), most = ScalarArg(Limits::max());
  return {least, most, {ExternArgList{}}, {dtype}, NoneArg(), device, NoneArg()};
}

constexpr absl::string_view kWait = "_c10d_functional::wait_tensor";
// They copy their argument before they begin. What else is waited for reads it until then.
constexpr absl::string_view kCopyingCollectives[] = {
    "_c10d_functional::all_reduce",
    "_c10d_functional::all_reduce_coalesced",
    "_c10d_functional::broadcast",
};

// The arguments of what a wait ends that are read until then.
std::vector<BufferId> ReadUntil(const ExternOp& wait, const Program& program) {
  std::set<BufferId> waited, read;
  ForEachView(wait.args, [&](const BufferView& view) { waited.insert(view.buffer); });
  for (const Operation& operation : program.operations) {
    const auto* call = std::get_if<ExternOp>(&operation);
    if (call == nullptr || std::ranges::count(kCopyingCollectives, call->op) != 0) continue;
    const auto is_waited = [&](BufferId result) { return waited.count(result) != 0; };
    if (std::ranges::none_of(call->results, is_waited)) continue;
    ForEachView(call->args, [&](const BufferView& view) { read.insert(view.buffer); });
  }
  return {read.begin(), read.end()};
}

// Whether there is nothing to compute, and indices that are out of range all the same.
bool OnlyChecks(const Node& node, const Operator* op) {
  if (!IsOfKind(op, OperatorKind::kIndexing)) return false;
  return std::any_of(node.outputs.begin(), node.outputs.end(), [](const TensorType& type) {
    return std::any_of(type.sizes.begin(), type.sizes.end(),
                       [](const Expr& size) { return size.Is(0); });
  });
}

}  // namespace

v1::Argument PlainArgument(const ArgumentValue& arg) {
  v1::Argument out;
  switch (arg.kind) {
    case ArgumentValue::kNone:
      out.set_none(true);
      break;
    case ArgumentValue::kInteger:
      sym::ToProto(arg.integer, out.mutable_integer());
      break;
    case ArgumentValue::kReal:
      out.set_real(arg.real);
      break;
    case ArgumentValue::kBoolean:
      out.set_boolean(!arg.integer.Is(0));
      break;
    case ArgumentValue::kText:
      out.set_text(arg.text);
      break;
    case ArgumentValue::kDType:
      out.set_dtype(arg.dtype);
      break;
    case ArgumentValue::kDevice:
      out.set_device(arg.device);
      break;
    case ArgumentValue::kMemoryFormat:
      out.set_memory_format(arg.memory_format);
      break;
    case ArgumentValue::kLayout:
      out.set_layout_strided(true);
      break;
    case ArgumentValue::kValue:
    case ArgumentValue::kList:
      TENSORD_CHECK(false, "not a plain argument");
  }
  return out;
}

ExternArg NoneArg() { return {PlainArgument({})}; }
ExternArg ScalarArg(const ArgumentValue& arg) { return {PlainArgument(arg)}; }
ExternArg ScalarArg(int64_t number) {
  v1::Argument argument;
  argument.mutable_integer()->set_constant(number);
  return {argument};
}

std::vector<Tensor> CallLibrary(Builder& b, const Node& node, const TensorSource& tensor_of) {
  auto [op, overload] = SplitOverload(node.op);
  // A plan's buffers may be reused once their last reader is done, so an alias that only the
  // library knows of would be left dangling: the copying form, whose result is contiguous, is
  // called instead.
  const bool aliases = HasTrait(FindOperator(node.op), kHasCopy);
  if (aliases) op += "_copy";
  std::vector<Builder::ResultMeta> metas;
  for (const TensorType& type : node.outputs) {
    metas.push_back(
        {type.dtype, type.sizes, aliases ? ContiguousStrides(type.sizes) : type.strides});
  }
  const Operator* known = FindOperator(node.op);
  const bool is_seed = op == "tensord::seed";
  std::vector<Tensor> results =
      is_seed ? b.Extern("aten::randint", "low", SeedArgs(node), metas)
              : b.Extern(op, overload, ToExternArgs(b, node, tensor_of), metas);
  auto& call = std::get<ExternOp>(b.program().operations.back());
  call.ordered = ActsBesides(known) || node.outputs.empty() || OnlyChecks(node, known);
  if (node.op == kWait) call.ends_reading = ReadUntil(call, b.program());
  if (WritesArgument(known)) {
    ForEachView({call.args[known->written]},
                [&](const BufferView& view) { call.mutated.push_back(view.buffer); });
  }
  for (size_t o = 0; o < results.size(); ++o) {
    if (!results[o].defined()) continue;
    b.program().buffers[results[o].view()->buffer].device = node.outputs[o].device;
    // Made anew, so that the tensor knows its device.
    results[o] = b.AsStrided(results[o], metas[o].sizes, metas[o].strides, Expr(0));
  }
  return results;
}

void CallLibraryInPlace(Builder& b, const Node& node, const TensorSource& tensor_of) {
  const auto [op, overload] = SplitOverload(node.op);
  b.Extern(op, overload, ToExternArgs(b, node, tensor_of), {Builder::ResultMeta{}});
  auto& call = std::get<ExternOp>(b.program().operations.back());
  call.mutated.push_back(std::get<BufferView>(call.args[0].value).buffer);
}

Tensor CopyToDevice(Builder& b, const Tensor& t, v1::DeviceType device) {
  v1::Argument where, non_blocking;
  where.set_device(device);
  // Towards a GPU the host need not wait; from one it must, for it reads the copy next.
  non_blocking.set_boolean(device == v1::DEVICE_TYPE_CUDA);
  // aten::_to_copy(self, dtype?, layout?, device?, pin_memory?, non_blocking, memory_format?)
  ExternArgList args = {b.TensorArg(t), NoneArg(),      NoneArg(), {where},
                        NoneArg(),      {non_blocking}, NoneArg()};
  const Sizes strides = ContiguousStrides(t.sizes());
  const Tensor copy =
      b.Extern("aten::_to_copy", "", std::move(args), {{t.dtype(), t.sizes(), strides}})[0];
  b.program().buffers[copy.view()->buffer].device = device;
  return b.AsStrided(copy, t.sizes(), strides, Expr(0));
}

Tensor CopyWhereItLies(Builder& b, const Tensor& t, const Sizes& strides) {
  v1::Argument dtype, device, non_blocking;
  dtype.set_dtype(t.dtype());
  device.set_device(t.device());
  non_blocking.set_boolean(false);
  // aten::empty_strided(size, stride, dtype?, layout?, device?, pin_memory?)
  const auto integers = [&](const Sizes& s) { return ToExternArg(b, IntegersArg(s), nullptr); };
  ExternArgList args = {integers(t.sizes()), integers(strides), {dtype},
                        NoneArg(),           {device},          NoneArg()};
  const Tensor made =
      b.Extern("aten::empty_strided", "", std::move(args), {{t.dtype(), t.sizes(), strides}})[0];
  const BufferId memory = made.view()->buffer;
  b.program().buffers[memory].device = t.device();
  const Tensor copy = b.AsStrided(made, t.sizes(), strides, Expr(0));
  // aten::copy_(self, src, non_blocking)
  b.Extern("aten::copy_", "", {b.TensorArg(copy), b.TensorArg(t), {non_blocking}},
           {Builder::ResultMeta{}});
  std::get<ExternOp>(b.program().operations.back()).mutated.push_back(memory);
  return copy;
}

}  // namespace tensord::compiler
