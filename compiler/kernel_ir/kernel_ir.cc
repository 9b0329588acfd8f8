// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_ir/kernel_ir.h"

namespace tensord::compiler::ir {

Statement Let(std::string name, Value value) {
  return {Declare{.bindings = {{std::move(name), std::move(value)}}}};
}
Statement LetIndex(std::string name, Value value) {
  return DeclareAll(kIndexType, {{std::move(name), std::move(value)}});
}
Statement Mutable(std::string name, Value value) {
  return {
      Declare{.bindings = {{std::move(name), std::move(value)}}, .mutability = Declare::kVariable}};
}
Statement DeclareAll(Type type, std::vector<Declare::Binding> bindings) {
  return {Declare{.bindings = std::move(bindings), .type = type}};
}
Statement Set(Value target, Value value) { return {Assign{std::move(target), std::move(value)}}; }
Statement Do(Value call) { return {Run{std::move(call)}}; }
Statement Loop(std::string variable, Value first, Value condition, Value step, Block body) {
  return {For{.variable = std::move(variable),
              .first = std::move(first),
              .condition = std::move(condition),
              .step = std::move(step),
              .body = std::move(body)}};
}
Statement When(Value condition, Block then) {
  return {If{.condition = std::move(condition), .then = std::move(then)}};
}
void Append(Block* to, const Block& more) { to->insert(to->end(), more.begin(), more.end()); }

void ForEachStatement(const Block& block, const std::function<void(const Statement&)>& visit) {
  for (const Statement& statement : block) {
    visit(statement);
    if (const auto* function = std::get_if<LocalFunction>(&statement.node)) {
      ForEachStatement(function->body, visit);
    } else if (const auto* loop = std::get_if<For>(&statement.node)) {
      ForEachStatement(loop->body, visit);
    } else if (const auto* condition = std::get_if<If>(&statement.node)) {
      ForEachStatement(condition->then, visit);
      ForEachStatement(condition->otherwise, visit);
    } else if (const auto* scope = std::get_if<Scope>(&statement.node)) {
      ForEachStatement(scope->body, visit);
    }
  }
}

namespace {

// The values of each kind of statement.
struct Values {
  const std::function<void(const Value&)>& visit;
  void One(const Value& value) const {
    if (value) visit(value);
  }
  void operator()(const BindPointer& bind) const { One(bind.position); }
  void operator()(const BindInteger& bind) const { One(bind.position); }
  void operator()(const BindShared&) const {}
  void operator()(const Declare& declare) const {
    for (const Declare::Binding& binding : declare.bindings) One(binding.value);
  }
  void operator()(const DeclareArray& declare) const {
    One(declare.like);
    for (const DeclareArray::Array& array : declare.arrays) One(array.count);
  }
  void operator()(const DeclareTile&) const {}
  void operator()(const LocalFunction&) const {}
  void operator()(const Assign& assign) const { One(assign.target), One(assign.value); }
  void operator()(const Run& run) const { One(run.call); }
  void operator()(const For& loop) const { One(loop.first), One(loop.condition), One(loop.step); }
  void operator()(const If& condition) const { One(condition.condition); }
  void operator()(const Scope&) const {}
  void operator()(const Barrier&) const {}
  void operator()(const Return& result) const { One(result.value); }
  void operator()(const Break&) const {}
};

}  // namespace

void ForEachValue(const Statement& statement, const std::function<void(const Value&)>& visit) {
  std::visit(Values{visit}, statement.node);
}

}  // namespace tensord::compiler::ir
