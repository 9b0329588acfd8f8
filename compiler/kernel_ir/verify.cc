// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_ir/verify.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/kernel_ir/prelude.h"
#include "compiler/kernel_ir/text.h"

namespace tensord::compiler::ir {
namespace {

// What a name stands for.
struct Name {
  Type type;
  bool is_mutable = false;
};

class FunctionVerifier {
 public:
  FunctionVerifier(const Kernel& kernel, const std::map<std::string, size_t>& functions,
                   const Function& function)
      : kernel_(kernel), functions_(functions), function_(function) {}

  absl::Status Run() {
    Inside([&] {
      DefineAll(function_.parameters);
      Check(function_.body);
    });
    return status_;
  }

  // Values outside of functions, over the integers that `statements` bind.
  absl::Status RunEntry(const Block& statements, const std::vector<Value>& values) {
    Inside([&] {
      Define("args", {kArgumentsType});
      Define("block", {kIntType});
      Define("blocks", {kIntType});
      Define("shared", {kGroupMemoryType});
      Check(statements);
      for (const Value& value : values) Check(value);
    });
    return status_;
  }

  // One statement's rules.
  void operator()(const BindPointer& bind) {
    Integer(bind.position);
    Require(bind.type.pointer, "is no pointer: ", bind.name);
    if (const auto* position = As<ir::Integer>(bind.position)) {
      Require(position->value < kernel_.buffers, "the launch has no buffer for ", bind.name);
      Require(bind.type.constant ||
                  std::count(kernel_.written.begin(), kernel_.written.end(), position->value) > 0,
              "writes through a pointer to what is not written: ", bind.name);
    }
    Define(bind.name, {bind.type});
  }
  void operator()(const BindInteger& bind) {
    Integer(bind.position);
    if (const auto* position = As<ir::Integer>(bind.position)) {
      Require(position->value < kernel_.integers, "the launch has no integer for ", bind.name);
    }
    Define(bind.name, {kIndexType});
  }
  void operator()(const BindShared& bind) {
    Require(bind.type.pointer, "is no pointer: ", bind.name);
    Require(bind.offset >= 0 && bind.offset + bind.bytes <= function_.shared_bytes,
            "lies beyond the shared memory: ", bind.name);
    for (const BindShared* other : shared_) {
      Require(
          bind.offset >= other->offset + other->bytes || other->offset >= bind.offset + bind.bytes,
          "shares its bytes with ", other->name, ": ", bind.name);
    }
    shared_.push_back(&bind);
    Define(bind.name, {bind.type});
  }
  void operator()(const Declare& declare) {
    for (const Declare::Binding& binding : declare.bindings) {
      Check(binding.value);
      const Type& of = binding.value.type();
      Require(of != kVoidType, "has no value: ", binding.name);
      Type type = declare.type.value_or(of);
      if (!(type == of)) {
        const bool widens = type.IsInteger() && IsInteger(of);
        const bool same = type.pointer && of.pointer && Pointee(type) == Pointee(of) &&
                          (type.constant || !of.constant);
        Require(widens || same, "is declared as ", type,
                ", which its value is not: ", binding.name);
      }
      Define(binding.name, {type, declare.mutability == Declare::kVariable});
    }
  }
  void operator()(const DeclareArray& declare) {
    if (declare.like) Check(declare.like);
    const Type element = declare.like ? declare.like.type() : declare.type;
    for (const DeclareArray::Array& array : declare.arrays) {
      if (array.count) Integer(array.count);
      Define(array.name, {array.count ? PointerTo(element) : element, true});
    }
  }
  void operator()(const DeclareTile& tile) {
    Require(tiles_.insert(tile.name).second, "is defined twice: ", tile.name);
  }
  void operator()(const LocalFunction& local) {
    Inside([&] {
      DefineAll(local.parameters);
      Check(local.body);
    });
    Define(local.name, {kFunctionType});
    locals_[local.name] = local.parameters.size();
  }
  void operator()(const Assign& assign) {
    Check(assign.target);
    Check(assign.value);
    if (const auto* variable = As<Variable>(assign.target)) {
      const Name* name = Find(variable->name);
      Require(name == nullptr || name->is_mutable, "is a constant: ", variable->name);
    } else {
      const auto* element = As<Element>(assign.target);
      const auto* unary = As<Unary>(assign.target);
      const bool dereferences = unary != nullptr && unary->op == Unary::kDereference;
      Require(element != nullptr || dereferences, "cannot be assigned to: ", assign.target);
      if (!status_.ok()) return;
      const Value& memory = element != nullptr ? element->array : unary->a;
      Require(!memory.type().constant,
              "is written through a pointer to constants: ", assign.target);
    }
    const Type &to = assign.target.type(), &from = assign.value.type();
    Require(to == from || (IsInteger(to) && IsInteger(from)), "a value of type ", from,
            " does not fit ", assign.target, " of ", to);
  }
  void operator()(const ir::Run& run) {
    Check(run.call);
    Require(As<Call>(run.call) != nullptr, "is no call: ", run.call);
  }
  void operator()(const For& loop) {
    Inside([&] {
      if (loop.first) {
        Integer(loop.first);
        Define(loop.variable, {loop.type, true});
      } else {
        const Name* name = Find(loop.variable);
        Require(name != nullptr && name->is_mutable, "is no variable: ", loop.variable);
      }
      Condition(loop.condition);
      Integer(loop.step);
      Inside([&] { Check(loop.body); });
    });
  }
  void operator()(const If& condition) {
    Condition(condition.condition);
    Inside([&] { Check(condition.then); });
    Inside([&] { Check(condition.otherwise); });
  }
  void operator()(const Scope& scope) {
    Inside([&] { Check(scope.body); });
  }
  void operator()(const Barrier&) {
    Require(kernel_.device == Kernel::kCuda, "a barrier of a block on a CPU");
  }
  void operator()(const Return& result) {
    if (result.value) Check(result.value);
  }
  void operator()(const Break&) {}

 private:
  // Words are made only where they are needed; values and types are named by their texts.
  template <class... Words>
  void Require(bool holds, const Words&... words) {
    if (holds || !status_.ok()) return;
    status_ =
        absl::InternalError(absl::StrCat("kernel IR: ", function_.name, ": ", WordOf(words)...));
  }
  template <class Word>
  static std::string WordOf(const Word& word) {
    if constexpr (requires { ToString(word); }) {
      return ToString(word);
    } else {
      return absl::StrCat(word);
    }
  }

  static bool IsInteger(const Type& type) { return Fits('i', type); }

  // ---- Names

  template <class Body>
  void Inside(const Body& body) {
    scopes_.emplace_back();
    body();
    scopes_.pop_back();
  }
  void Define(const std::string& name, Name what) {
    Require(scopes_.back().emplace(name, what).second, "is defined twice: ", name);
  }
  void DefineAll(const std::vector<Parameter>& parameters) {
    for (const Parameter& parameter : parameters) Define(parameter.name, {parameter.type});
  }
  const Name* Find(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto it = scope->find(name); it != scope->end()) return &it->second;
    }
    return nullptr;
  }

  // ---- Statements and values

  void Check(const Block& block) {
    for (const Statement& statement : block) {
      if (!status_.ok()) return;
      std::visit(*this, statement.node);
    }
  }

  void Integer(const Value& value) {
    Check(value);
    Require(IsInteger(value.type()), "is no integer: ", value);
  }
  void Condition(const Value& value) {
    Check(value);
    Require(value.type() == kBoolType, "is no condition: ", value);
  }

  void Check(const Value& value) {
    ForEachOperand(value, [&](const Value& operand) { Check(operand); });
    if (!status_.ok()) return;
    if (const auto* variable = As<Variable>(value)) {
      const Name* name = Find(variable->name);
      Require(name != nullptr, "is not defined: ", variable->name);
      if (name != nullptr) {
        // What is written may be read through a pointer to constants.
        Type read = name->type;
        if (read.pointer) read.constant = value.type().constant || read.constant;
        Require(read == value.type(), "is of ", name->type, ", not of ", value.type(), ": ",
                variable->name);
      }
    } else if (const auto* binary = As<Binary>(value)) {
      CheckBinary(*binary, value);
    } else if (const auto* unary = As<Unary>(value)) {
      const Type& type = unary->a.type();
      Require(unary->op == Unary::kNot      ? type == kBoolType
              : unary->op == Unary::kNegate ? IsInteger(type)
                                            : type.pointer,
              "operand does not fit: ", value);
    } else if (const auto* select = As<Select>(value)) {
      Require(select->condition.type() == kBoolType, "is no condition: ", select->condition);
      Require(select->a.type() == select->b.type() ||
                  (IsInteger(select->a.type()) && IsInteger(select->b.type())),
              "chooses between two types: ", value);
    } else if (const auto* element = As<Element>(value)) {
      Require(element->array.type().pointer && IsInteger(element->index.type()),
              "is no element: ", value);
    } else if (const auto* call = As<Call>(value)) {
      CheckCall(*call, value);
    } else if (const auto* combiner = As<Combiner>(value)) {
      const PreludeFunction* function = FindPrelude(combiner->function, 0, 2);
      Require(function != nullptr, "the prelude has no such function: ", combiner->function);
    } else if (const auto* index = As<IndexOf>(value)) {
      sym::ForEachSymbol(index->expr, [&](const sym::Atom& atom) {
        Require(index->symbols.count({atom.kind, atom.id}) > 0, "nobody says what ",
                sym::SymbolName(atom), " is");
      });
      for (const auto& [symbol, what] : index->symbols) {
        Require(IsInteger(what.type()), "is no integer: ", what);
      }
    }
  }

  void CheckBinary(const Binary& binary, const Value& value) {
    const Type &a = binary.a.type(), &b = binary.b.type();
    bool fits = IsInteger(a) && IsInteger(b);
    if (binary.op == BinaryOp::kAdd) fits |= a.pointer && IsInteger(b);
    if (binary.op == BinaryOp::kBitAnd) fits |= a.IsMask() && a == b;
    if (binary.op == BinaryOp::kAnd) fits = a == kBoolType && b == kBoolType;
    Require(fits, "operands do not fit: ", value);
  }

  void CheckCall(const Call& call, const Value& value) {
    if (call.target == Call::kFunction) {
      CheckFunctionCall(call);
      return;
    }
    const bool of_tile = call.target == Call::kTile;
    if (of_tile) Require(tiles_.count(call.scope) > 0, "is no tile: ", call.scope);
    const PreludeFunction* function =
        FindPrelude(absl::StrCat(of_tile ? "Tile::" : "", call.function), call.templates.size(),
                    call.operands.size());
    Require(function != nullptr, "the prelude has no such function: ", value);
    if (function == nullptr) return;
    const auto device =
        kernel_.device == Kernel::kCpu ? PreludeFunction::kCpu : PreludeFunction::kCuda;
    Require((function->devices & device) != 0, "is not on this device: ", call.function);
    int lanes = -1;
    for (size_t i = 0; i < call.templates.size(); ++i) {
      const bool is_type = std::holds_alternative<Type>(call.templates[i]);
      Require(is_type == (function->templates[i] == 't'), "template argument ", i,
              " does not fit: ", value);
      if (function->templates[i] == 'w' && !is_type) {
        lanes = LanesOf(std::get<Value>(call.templates[i]));
      }
    }
    if (function->result == 'f' || call.function == "splat") lanes = -1;  // of the result alone
    for (size_t i = 0; i < call.operands.size(); ++i) {
      const char letter = function->operands[i];
      const Type& type = call.operands[i].type();
      Require(Fits(letter, type), "operand ", i, " of type ", type, " does not fit: ", value);
      if (letter != 'v' && letter != 'm' && letter != 'e' && letter != 'x') continue;
      if (lanes < 0) lanes = type.lanes;
      Require(lanes == type.lanes, "operands have different lanes: ", value);
    }
  }

  void CheckFunctionCall(const Call& call) {
    size_t parameters = 0;
    if (const auto local = locals_.find(call.function); local != locals_.end()) {
      parameters = local->second;
    } else {
      auto function = functions_.find(call.function);
      if (function == functions_.end() && !function_.space.empty()) {
        function = functions_.find(absl::StrCat(function_.space, "::", call.function));
      }
      Require(function != functions_.end(), "is no function: ", call.function);
      if (function == functions_.end()) return;
      parameters = function->second;
    }
    Require(parameters == call.operands.size(), "takes ", parameters, " operands: ", call.function);
  }

  const Kernel& kernel_;
  const std::map<std::string, size_t>& functions_;
  const Function& function_;
  absl::Status status_;
  std::vector<std::map<std::string, Name>> scopes_;
  std::vector<const BindShared*> shared_;
  std::set<std::string> tiles_;
  std::map<std::string, size_t> locals_;  // -> parameters
};

absl::Status VerifyEntries(const Kernel& kernel, const std::map<std::string, size_t>& functions) {
  int shared_bytes = 0;
  for (const Function& function : kernel.functions) {
    shared_bytes = std::max(shared_bytes, function.shared_bytes);
  }
  if (kernel.cpu) {
    std::vector<Value> values = {kernel.cpu->stride};
    for (const CpuNest& nest : kernel.cpu->nests) {
      for (const std::string& name : {nest.function, nest.finish}) {
        if (!name.empty() && functions.count(name) == 0) {
          return absl::InternalError(absl::StrCat("kernel IR: no function ", name));
        }
      }
      values.insert(values.end(), {nest.units, nest.work});
    }
    Function entry{.name = kernel.cpu->name};
    TENSORD_RETURN_IF_ERROR(
        FunctionVerifier(kernel, functions, entry).RunEntry(kernel.cpu->integers, values));
  }
  for (const CudaEntry& entry : kernel.cuda) {
    if (!entry.finishes && entry.shared_bytes < shared_bytes) {
      return absl::InternalError(absl::StrCat("kernel IR: ", entry.name, " asks for ",
                                              entry.shared_bytes, " bytes of shared memory of ",
                                              shared_bytes));
    }
    std::vector<Value> values;
    for (const CudaEntry::Part& part : entry.parts) {
      values.push_back(part.call);
      if (part.blocks) values.push_back(part.blocks);
    }
    Function function{.name = entry.name};
    TENSORD_RETURN_IF_ERROR(FunctionVerifier(kernel, functions, function).RunEntry({}, values));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Verify(const Kernel& kernel) {
  std::map<std::string, size_t> functions;
  for (const Function& function : kernel.functions) {
    TENSORD_RETURN_IF_ERROR(FunctionVerifier(kernel, functions, function).Run());
    const std::string name =
        function.space.empty() ? function.name : absl::StrCat(function.space, "::", function.name);
    if (!functions.emplace(name, function.parameters.size()).second) {
      return absl::InternalError(absl::StrCat("kernel IR: two functions ", name));
    }
  }
  TENSORD_RETURN_IF_ERROR(VerifyEntries(kernel, functions));
  return kernel.device == Kernel::kCuda ? VerifyBarriers(kernel) : absl::OkStatus();
}

}  // namespace tensord::compiler::ir
