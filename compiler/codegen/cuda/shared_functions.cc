// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cuda/shared_functions.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "base/check.h"
#include "compiler/codegen/cuda/nest.h"
#include "compiler/kernel_ir/text.h"

namespace tensord::compiler {
namespace {

constexpr const char* kName = "nest_of_many";

// The nests of one function; their arguments follow each other.
struct Family {
  std::vector<size_t> nests;
  ir::Function function;
  std::vector<BufferId> buffers, written;
  std::vector<Expr> integers;
};

// The function that tells the launch's blocks apart, and how many there are.
ir::Function FunctionOfAll(const Family& family, const std::vector<PlannedCudaNest>& nests,
                           KernelInterface* interface, Expr* blocks) {
  const int count = static_cast<int>(family.nests.size());
  std::vector<Expr> ends;
  for (size_t i : family.nests) ends.push_back(*blocks += nests[i].plan.blocks);
  const int first_end = interface->AppendIntegers(ends);
  const int first_integer = interface->AppendIntegers(family.integers);
  const int first_buffer = interface->AppendBuffers(family.buffers);
  const ir::Value part = ir::IntVar("part"), start = ir::IntVar("start");
  const auto end_of = [](const ir::Value& number) {
    return ir::CallOfFunction("end", {number}, ir::kIntType);
  };
  const auto of_each = [&](int first, size_t total) {
    return ir::Value(first) + part * (static_cast<int>(total) / count);
  };
  const ir::Value end = ir::CastTo(ir::kIntType, ir::IntegerArgument(ir::Value(first_end) + part));
  return {
      .name = "all",
      .role = ir::Role::kShared,
      .parameters = {{"args", ir::kArgumentsType},
                     {"block", ir::kIntType, true},
                     {"shared", ir::kGroupMemoryType}},
      .body = {{ir::LocalFunction{.name = "end",
                                  .parameters = {{"part", ir::kIntType}},
                                  .result = ir::kIntType,
                                  .body = {{ir::Return{end}}}}},
               ir::DeclareAll(ir::kIntType,
                              {{"part", ir::CallOf("part_of", {count, BlockNumber(),
                                                               ir::Var("end", ir::kFunctionType)})},
                               {"start", ir::Choose(part > 0, end_of(part - 1), 0)}}),
               ir::Do(ir::CallOfFunction(
                   kName, {ir::Var("args", ir::kArgumentsType), BlockNumber() - start,
                           end_of(part) - start, GroupMemory(),
                           of_each(first_buffer, family.buffers.size()),
                           of_each(first_integer, family.integers.size())}))},
      .threads = family.function.threads,
      .group = family.function.group};
}

}  // namespace

SharedFunctions LowerSharedFunctions(const Program& program, const CudaKernelPlan& plan,
                                     KernelInterface* interface) {
  SharedFunctions result{.done = std::vector<bool>(plan.nests.size(), false)};
  for (size_t number = 0; number < plan.shared_functions.size(); ++number) {
    Family family{.nests = plan.shared_functions[number]};
    for (size_t i : family.nests) {
      const auto& [nest, nest_plan] = plan.nests[i];
      KernelInterface local(/*shared_function=*/true);
      ir::Function function =
          std::move(LowerCudaNest(program, nest, nest_plan, kName, &local).functions.back());
      if (i != family.nests[0]) {
        TENSORD_CHECK(ir::ToString(family.function) == ir::ToString(function),
                      "structurally equal nests differ in their functions");
      }
      family.function = std::move(function);
      const LaunchInterface& launch = local.launch();
      family.buffers.insert(family.buffers.end(), launch.buffers.begin(), launch.buffers.end());
      family.integers.insert(family.integers.end(), launch.integers.begin(), launch.integers.end());
      family.written.insert(family.written.end(), launch.written.begin(), launch.written.end());
      result.done[i] = true;
    }
    Expr blocks(0);
    const std::string space = absl::StrCat("equal_nests", number);
    ir::Function all = FunctionOfAll(family, plan.nests, interface, &blocks);
    family.function.space = all.space = space;
    result.functions.push_back(std::move(family.function));
    result.functions.push_back(std::move(all));
    result.parts.push_back(
        {ir::CallOfFunction(absl::StrCat(space, "::all"),
                            {ir::Var("args", ir::kArgumentsType), BlockNumber(), GroupMemory()}),
         blocks});
    for (BufferId id : family.written) interface->MarkWritten(id);
  }
  return result;
}

}  // namespace tensord::compiler
