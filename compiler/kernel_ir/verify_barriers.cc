// SPDX-License-Identifier: Apache-2.0
// Which threads of a block may take different ways, and whether some of them leave others waiting.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <string>

#include "compiler/kernel_ir/prelude.h"
#include "compiler/kernel_ir/text.h"
#include "compiler/kernel_ir/verify.h"

namespace tensord::compiler::ir {
namespace {

// The threads that surely have the same value, or are on the same way.
enum Common : uint8_t { kBlock, kGroup, kNone };

// Whether calling a function takes all threads of the block; by its name.
using Meeting = std::map<std::string, bool>;

class BarrierVerifier {
 public:
  BarrierVerifier(const Function& function, const Meeting& meeting)
      : function_(function), meeting_(meeting) {}

  absl::Status Run() {
    Walk(function_.body);
    return status_;
  }
  bool meets() const { return meets_; }

  void operator()(const BindPointer&) {}
  void operator()(const BindInteger&) {}
  void operator()(const BindShared&) {}
  void operator()(const DeclareArray&) {}
  void operator()(const DeclareTile&) {}
  void operator()(const LocalFunction& local) { Walk(local.body); }
  void operator()(const Declare& declare) {
    for (const Declare::Binding& binding : declare.bindings) {
      Raise(binding.name, Of(binding.value));
      if (const auto number = Number(binding.value)) numbers_[binding.name] = *number;
    }
  }
  void operator()(const Assign& assign) {
    const Common of = Of(assign.value);
    Value target = assign.target;
    while (const auto* element = As<Element>(target)) {
      Of(element->index);
      target = element->array;
    }
    if (const auto* variable = As<Variable>(target)) Raise(variable->name, of);
  }
  void operator()(const ir::Run& run) { Of(run.call); }
  void operator()(const For& loop) {
    if (loop.first) Raise(loop.variable, Of(loop.first));
    const Common before = way_;
    // What a turn changes, the next one may see.
    int seen = 0;
    do {
      seen = raises_;
      way_ = std::max(way_, Of(loop.condition));
      Raise(loop.variable, Of(loop.step));
      Walk(loop.body);
    } while (raises_ != seen);
    way_ = std::max(before, gone_);
  }
  void operator()(const If& condition) {
    const Common before = way_;
    way_ = std::max(way_, Of(condition.condition));
    Walk(condition.then);
    Walk(condition.otherwise);
    way_ = std::max(before, gone_);
  }
  void operator()(const Scope& scope) { Walk(scope.body); }
  void operator()(const Barrier&) { Meet(kBlock, "a barrier"); }
  void operator()(const Return& result) {
    if (result.value) Of(result.value);
    gone_ = std::max(gone_, way_);
  }
  void operator()(const Break&) { gone_ = std::max(gone_, way_); }

 private:
  void Walk(const Block& block) {
    for (const Statement& statement : block) std::visit(*this, statement.node);
  }

  void Meet(Common who, const std::string& what) {
    meets_ |= who == kBlock;
    if (way_ <= who || !status_.ok()) return;
    status_ =
        absl::InternalError(absl::StrCat("kernel IR: ", function_.name, ": not all threads of a ",
                                         who == kBlock ? "block" : "group", " come to ", what));
  }

  Common Known(const std::string& name) const {
    const auto it = known_.find(name);
    return it == known_.end() ? kBlock : it->second;
  }
  // A variable gets a value here, on a way that only some threads may be on.
  void Raise(const std::string& name, Common of) {
    Common& known = known_.try_emplace(name, kBlock).first->second;
    const Common raised = std::max({known, of, way_});
    if (raised != known) ++raises_;
    known = raised;
  }

  std::optional<int64_t> Number(const Value& value) const {
    if (const auto* integer = As<Integer>(value)) return integer->value;
    const auto* variable = As<Variable>(value);
    if (variable == nullptr) return std::nullopt;
    const auto it = numbers_.find(variable->name);
    return it == numbers_.end() ? std::nullopt : std::optional(it->second);
  }

  // Threads that share the quotient of their number by `of`.
  Common Threads(int64_t of) const {
    if (of >= function_.threads) return kBlock;
    return of % function_.group == 0 ? kGroup : kNone;
  }

  Common Of(const Value& value) {
    if (const auto* variable = As<Variable>(value)) return Known(variable->name);
    if (const auto* builtin = As<Builtin>(value)) {
      return builtin->kind == Builtin::kThread ? Threads(1) : kBlock;
    }
    if (const auto* binary = As<Binary>(value); binary != nullptr && binary->op == BinaryOp::kDiv) {
      const auto* builtin = As<Builtin>(binary->a);
      const auto number = Number(binary->b);
      if (builtin != nullptr && builtin->kind == Builtin::kThread && number)
        return Threads(*number);
    }
    Common all = kBlock;
    ForEachOperand(value, [&](const Value& operand) { all = std::max(all, Of(operand)); });
    const auto* call = As<Call>(value);
    return call == nullptr ? all : OfCall(*call, all);
  }

  Common OfCall(const Call& call, Common operands) {
    if (call.target == Call::kFunction) {
      std::string name = call.function;
      auto it = meeting_.find(name);
      if (it == meeting_.end()) it = meeting_.find(absl::StrCat(function_.space, "::", name));
      if (it != meeting_.end() && it->second) Meet(kBlock, name);
      return operands;
    }
    if (call.target == Call::kTile) {
      return operands;
    }
    const PreludeFunction* function =
        FindPrelude(call.function, call.templates.size(), call.operands.size());
    if (function == nullptr || function->meets == Meets::kNobody) return operands;
    if (function->meets == Meets::kBlock) {
      Meet(kBlock, call.function);
      return function->result == 'b' ? kBlock : kNone;
    }
    const int64_t threads = Number(std::get<Value>(call.templates[0])).value_or(function_.threads);
    if (threads == 1) return operands;
    const Common who = threads >= function_.threads ? kBlock : kGroup;
    Meet(who, call.function);
    // Besides what the group has together, which it changes, a scan gives each thread its own.
    return function->has_effect ? kNone : who;
  }

  const Function& function_;
  const Meeting& meeting_;
  absl::Status status_;
  std::map<std::string, Common> known_;     // of values; others are the same for the block
  std::map<std::string, int64_t> numbers_;  // constants
  int raises_ = 0;                          // how often one of `known_` has changed
  Common way_ = kBlock;                     // who is here together
  Common gone_ = kBlock;                    // who may have returned
  bool meets_ = false;
};

}  // namespace

absl::Status VerifyBarriers(const Kernel& kernel) {
  Meeting meeting;
  for (const Function& function : kernel.functions) {
    BarrierVerifier verifier(function, meeting);
    TENSORD_RETURN_IF_ERROR(verifier.Run());
    const std::string name =
        function.space.empty() ? function.name : absl::StrCat(function.space, "::", function.name);
    meeting[name] = verifier.meets();
  }
  return absl::OkStatus();
}

}  // namespace tensord::compiler::ir
