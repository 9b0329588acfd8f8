// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/accumulators.h"

#include <absl/strings/str_cat.h>

namespace tensord::compiler {

Accumulators::Accumulators(const Program& program, const Nest& nest, BodyLowering* body,
                           KernelInterface* interface)
    : program_(program), nest_(nest), body_(body), interface_(interface) {
  for (const NestReduction& reduction : ReductionsOf(nest_)) {
    const int number = static_cast<int>(all_.size());
    all_.push_back({reduction, number, absl::StrCat("acc", number), std::nullopt});
  }
}

ir::Value Accumulators::Start(const Accumulator& acc, const ir::Value& lanes) {
  if (const StateFunctions* state = StateOf(acc.kind())) {
    // The state of online softmax is always float32.
    const ir::Type type =
        acc.kind() == ReduceKind::kOnlineSoftmax ? ir::ScalarType(kFloat32) : acc.scalar();
    return ir::CallOf(absl::StrCat(state->name, "_start"), {type, lanes}, {});
  }
  return ir::CallOf("broadcast", {lanes}, {IdentityOf(acc.kind(), acc.dtype)});
}

ir::Value Accumulators::Named(const std::string& name, const Accumulator& acc,
                              const ir::Value& lanes) {
  return ir::Var(name, Start(acc, lanes).type());
}

ir::Statement Accumulators::Combine(const Accumulator& acc, const ir::Value& target,
                                    const ir::Value& value) {
  return ir::Set(target, ir::CallOf(CombineFunction(acc.kind()), {target, value}));
}

ir::Value Accumulators::InTail(const Accumulator& acc, const ir::Value& value) const {
  if (!body_->tail()) return value;
  return ir::CallOf("where", {FirstLanes(), value, Start(acc, Width())});
}

void Accumulators::Accumulate(const NestMember& member, int copy) {
  const int level = body_->vector_level();
  for (const Accumulator& acc : all_) {
    if (acc.member != &member) continue;
    const ir::Value value = body_->Use(body_->Lower(acc.reduction->value), level);
    if (const ir::Value at = AddressOf(acc)) {
      const ir::Value old = body_->LoadNeighbours(acc.scalar(), at);
      const ir::Value sum = ir::CallOf(CombineFunction(acc.kind()), {old, value});
      body_->Add(level, ir::Do(body_->StoreNeighbours(acc.scalar(), at, sum)));
      continue;
    }
    const ir::Value target = VariableOf(acc, copy);
    const StateFunctions* state = StateOf(acc.kind());
    if (state == nullptr) {
      body_->Add(level, Combine(acc, target, InTail(acc, value)));
      continue;
    }
    const ir::Value position = IsArg(acc.kind()) ? body_->InnerPosition() : ir::Value();
    std::vector<ir::Value> operands = {target, value};
    if (position) operands.push_back(position);
    body_->Add(level, ir::Set(target, body_->tail() ? AddTail(*state, target, value, position)
                                                    : ir::CallOf(absl::StrCat(state->name, "_add"),
                                                                 std::move(operands))));
  }
}

void Accumulators::AccumulateRow(const NestMember& member) {
  for (const Accumulator& acc : all_) {
    if (acc.member != &member) continue;
    const ir::Value value = body_->Use(body_->Lower(acc.reduction->value), 0);
    body_->Add(0, Combine(acc, ir::Var(acc.name, value.type()), value));
  }
}

void Accumulators::StoreResults(const Accumulator& acc, const ir::Value& state,
                                BodyLowering* body) {
  const Reduction& reduction = *acc.reduction;
  const StateFunctions* functions = StateOf(reduction.kind);
  body->SetMember(acc.member);
  for (size_t part = 0; part < reduction.results.size(); ++part) {
    if (reduction.results[part] < 0) continue;
    const ir::Value value =
        functions == nullptr ? state : body->Define(0, ir::FieldOf(state, functions->fields[part]));
    body->StoreRowResult(reduction.results[part], reduction.indices[part], {.value = value});
  }
}

}  // namespace tensord::compiler
