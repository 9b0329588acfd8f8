// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/testing/kernel_ir.h"

#include <functional>

namespace tensord::testing {
namespace {

using compiler::ir::Kernel;
using compiler::ir::Value;

void ForEachStatement(const Kernel& kernel,
                      const std::function<void(const compiler::ir::Statement&)>& visit) {
  for (const compiler::ir::Function& function : kernel.functions) {
    compiler::ir::ForEachStatement(function.body, visit);
  }
}

void ForEachCall(const Kernel& kernel,
                 const std::function<void(const compiler::ir::Call&)>& visit) {
  const std::function<void(const Value&)> in_value = [&](const Value& value) {
    const auto* call = compiler::ir::As<compiler::ir::Call>(value);
    if (call != nullptr && call->target == compiler::ir::Call::kPrelude) visit(*call);
    compiler::ir::ForEachOperand(value, in_value);
  };
  ForEachStatement(kernel, [&](const compiler::ir::Statement& statement) {
    compiler::ir::ForEachValue(statement, in_value);
  });
}

}  // namespace

std::vector<std::string> CallsOf(const Kernel& kernel) {
  std::vector<std::string> calls;
  ForEachCall(kernel, [&](const compiler::ir::Call& call) { calls.push_back(call.function); });
  return calls;
}

int CountCalls(const Kernel& kernel, std::string_view function, compiler::DType storage) {
  int count = 0;
  ForEachCall(kernel, [&](const compiler::ir::Call& call) {
    if (call.function != function || call.templates.empty()) return;
    const auto* type = std::get_if<compiler::ir::Type>(&call.templates[0]);
    if (type != nullptr && type->dtype == storage) ++count;
  });
  return count;
}

int CountBuffers(const Kernel& kernel, compiler::DType storage) {
  int count = 0;
  ForEachStatement(kernel, [&](const compiler::ir::Statement& statement) {
    const auto* bind = std::get_if<compiler::ir::BindPointer>(&statement.node);
    if (bind != nullptr && bind->type.dtype == storage) ++count;
  });
  return count;
}

std::vector<std::string> SharedArraysOf(const Kernel& kernel) {
  std::vector<std::string> names;
  ForEachStatement(kernel, [&](const compiler::ir::Statement& statement) {
    const auto* bind = std::get_if<compiler::ir::BindShared>(&statement.node);
    if (bind != nullptr) names.push_back(bind->name);
  });
  return names;
}

}  // namespace tensord::testing
