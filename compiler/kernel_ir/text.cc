// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_ir/text.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <cmath>

namespace tensord::compiler::ir {
namespace {

const char* StateName(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kWelford:
      return "welford";
    case ReduceKind::kOnlineSoftmax:
      return "softmax";
    case ReduceKind::kArgMax:
      return "argmax";
    default:
      return "argmin";
  }
}

std::string List(const std::vector<Value>& values) {
  return absl::StrJoin(values, ", ",
                       [](std::string* out, const Value& value) { *out += ToString(value); });
}

struct ValueText {
  const Type& type;

  std::string operator()(const Variable& variable) const { return variable.name; }
  std::string operator()(const Argument& argument) const {
    switch (argument.kind) {
      case Argument::kScratch:
        return "scratch()";
      case Argument::kCounters:
        return "counters()";
      case Argument::kInteger:
        break;
    }
    return absl::StrCat("integer(", ToString(argument.position), ")");
  }
  std::string operator()(const Builtin& builtin) const {
    static constexpr const char* kNames[] = {"thread()", "block()", "blocks()"};
    return kNames[builtin.kind];
  }
  std::string operator()(const Literal& literal) const {
    if (literal.dtype == kBool) return literal.integer != 0 ? "true" : "false";
    const std::string number = !IsFloating(literal.dtype) ? absl::StrCat(literal.integer)
                               : literal.number == 0 && std::signbit(literal.number)
                                   ? "-0"
                                   : absl::StrFormat("%.17g", literal.number);
    return absl::StrCat(DTypeName(ComputeType(literal.dtype)), "(", number, ")");
  }
  std::string operator()(const Integer& integer) const {
    return absl::StrCat(integer.value, type.kind == TypeKind::kUnsigned ? "u" : "");
  }
  std::string operator()(const IndexOf& index) const {
    return absl::StrCat("[",
                        sym::ToCpp(index.expr,
                                   [&](const sym::Atom& atom) {
                                     return ToString(index.symbols.at({atom.kind, atom.id}));
                                   }),
                        "]");
  }
  std::string operator()(const Binary& binary) const {
    return absl::StrCat("(", ToString(binary.a), " ", Spelling(binary.op), " ", ToString(binary.b),
                        ")");
  }
  std::string operator()(const Unary& unary) const {
    return absl::StrCat(Spelling(unary.op), ToString(unary.a));
  }
  std::string operator()(const Select& select) const {
    return absl::StrCat("(", ToString(select.condition), " ? ", ToString(select.a), " : ",
                        ToString(select.b), ")");
  }
  std::string operator()(const Convert& convert) const {
    return absl::StrCat(ToString(type), "(", ToString(convert.a), ")");
  }
  std::string operator()(const Cast& cast) const {
    return absl::StrCat("cast<", ToString(type), ">(", ToString(cast.a), ")");
  }
  std::string operator()(const Reinterpret& reinterpret) const {
    return absl::StrCat("memory<", ToString(type), ">(", ToString(reinterpret.address), ")");
  }
  std::string operator()(const Call& call) const {
    std::string text = call.target == Call::kFunction ? "@" + call.function : call.function;
    if (call.target == Call::kTile) text = absl::StrCat(call.scope, ".", call.function);
    if (!call.templates.empty()) {
      absl::StrAppend(&text, "<",
                      absl::StrJoin(call.templates, ", ",
                                    [](std::string* out, const TemplateArgument& argument) {
                                      std::visit([&](const auto& a) { *out += ToString(a); },
                                                 argument);
                                    }),
                      ">");
    }
    return absl::StrCat(text, "(", List(call.operands), ")");
  }
  std::string operator()(const Member& member) const {
    return absl::StrCat(ToString(member.state), ".", member.field);
  }
  std::string operator()(const Lane& lane) const {
    return absl::StrCat(ToString(lane.vector), ".lane(", lane.lane, ")");
  }
  std::string operator()(const Element& element) const {
    return absl::StrCat(ToString(element.array), "[", ToString(element.index), "]");
  }
  std::string operator()(const Combiner& combiner) const {
    return absl::StrCat("&", combiner.function);
  }
  std::string operator()(const ir::Make& make) const {
    return absl::StrCat(ToString(type), "{", List(make.parts), "}");
  }
};

std::string ParametersText(const std::vector<Parameter>& parameters) {
  return absl::StrJoin(parameters, ", ", [](std::string* out, const Parameter& parameter) {
    absl::StrAppend(out, parameter.name, ": ", ToString(parameter.type));
  });
}

struct StatementText {
  int depth;

  std::string Inside(const Block& block) const { return ToString(block, depth + 1); }
  std::string Braces(const Block& block) const {
    return absl::StrCat(" {\n", Inside(block), std::string(2 * depth, ' '), "}");
  }

  std::string operator()(const BindPointer& bind) const {
    return absl::StrCat("let ", bind.name, ": ", ToString(bind.type), " = buffer(",
                        ToString(bind.position), ")");
  }
  std::string operator()(const BindInteger& bind) const {
    return absl::StrCat("let ", bind.name, ": index = integer(", ToString(bind.position), ")");
  }
  std::string operator()(const BindShared& bind) const {
    return absl::StrCat("let ", bind.name, ": ", ToString(bind.type), " = shared(", bind.offset,
                        ", ", bind.bytes, ")");
  }
  std::string operator()(const Declare& declare) const {
    static constexpr const char* kWords[] = {"let ", "var ", "const "};
    return kWords[declare.mutability] +
           absl::StrJoin(declare.bindings, ", ",
                         [&](std::string* out, const Declare::Binding& binding) {
                           absl::StrAppend(out, binding.name, ": ",
                                           ToString(declare.type.value_or(binding.value.type())),
                                           " = ", ToString(binding.value));
                         });
  }
  std::string operator()(const DeclareArray& declare) const {
    std::string text = "var ";
    for (size_t i = 0; i < declare.arrays.size(); ++i) {
      const DeclareArray::Array& array = declare.arrays[i];
      absl::StrAppend(&text, i > 0 ? ", " : "", array.name, ": ",
                      ToString(declare.like ? declare.like.type() : declare.type),
                      array.count ? absl::StrCat("[", ToString(array.count), "]") : "");
    }
    if (declare.alignment > 0) absl::StrAppend(&text, " aligned ", declare.alignment);
    return text;
  }
  std::string operator()(const DeclareTile& tile) const {
    return absl::StrCat("tile ", tile.name, ": ", DTypeName(tile.storage), "[", tile.along, ", ",
                        tile.across, "] in runs of ", tile.run);
  }
  std::string operator()(const LocalFunction& function) const {
    return absl::StrCat("function ", function.name, "(", ParametersText(function.parameters),
                        "): ", ToString(function.result), Braces(function.body));
  }
  std::string operator()(const Assign& assign) const {
    return absl::StrCat(ToString(assign.target), " ", assign.op ? Spelling(*assign.op) : "", "= ",
                        ToString(assign.value));
  }
  std::string operator()(const Run& run) const { return ToString(run.call); }
  std::string operator()(const For& loop) const {
    std::string text = absl::StrCat("for ", loop.variable);
    if (loop.first) {
      absl::StrAppend(&text, ": ", ToString(loop.type), " = ", ToString(loop.first));
    }
    absl::StrAppend(&text, " while ", ToString(loop.condition), " step ", ToString(loop.step));
    if (loop.unroll == For::kWhole) text += " unrolled";
    if (loop.unroll > 0) absl::StrAppend(&text, " unrolled by ", loop.unroll);
    return text + Braces(loop.body);
  }
  std::string operator()(const If& condition) const {
    std::string text = absl::StrCat("if ", ToString(condition.condition), Braces(condition.then));
    if (!condition.otherwise.empty()) text += " else" + Braces(condition.otherwise);
    return text;
  }
  std::string operator()(const Scope& scope) const { return "scope" + Braces(scope.body); }
  std::string operator()(const Barrier&) const { return "barrier"; }
  std::string operator()(const Return& result) const {
    return result.value ? "return " + ToString(result.value) : "return";
  }
  std::string operator()(const Break&) const { return "break"; }
};

}  // namespace

std::string LanesText(int lanes) { return lanes == kWidth ? "W" : absl::StrCat(lanes); }

const char* Spelling(Unary::Op op) {
  static constexpr const char* kWords[] = {"!", "-", "*"};
  return kWords[op];
}

const char* Spelling(BinaryOp op) {
  static constexpr const char* kWords[] = {"+",  "-", "*",  "/",  "%",  "<",
                                           "<=", ">", ">=", "==", "&&", "&"};
  return kWords[static_cast<int>(op)];
}

std::string ToString(const Type& type) {
  static constexpr const char* kNames[] = {
      "void",    "bool", "int",  "unsigned", "index",        "int64",     "",        "vector<",
      "packed<", "<",    "byte", "counter",  "group_memory", "arguments", "function"};
  std::string text = kNames[static_cast<int>(type.kind)];
  switch (type.kind) {
    case TypeKind::kScalar:
      text = DTypeName(type.dtype);
      break;
    case TypeKind::kVector:
    case TypeKind::kPacked:
      absl::StrAppend(&text, DTypeName(type.dtype), ", ", LanesText(type.lanes), ">");
      break;
    case TypeKind::kState:
      text = absl::StrCat(StateName(type.reduce), "<", DTypeName(type.dtype), ", ",
                          LanesText(type.lanes), ">");
      break;
    default:
      break;
  }
  if (type.pointer) absl::StrAppend(&text, type.constant ? " const" : "", "*");
  return text;
}

std::string ToString(const Value& value) {
  return value ? std::visit(ValueText{value->type}, value->node) : "none";
}

std::string ToString(const Block& block, int depth) {
  std::string text;
  for (const Statement& statement : block) {
    absl::StrAppend(&text, std::string(2 * depth, ' '),
                    std::visit(StatementText{depth}, statement.node), "\n");
  }
  return text;
}

std::string ToString(const Function& function) {
  static constexpr const char* kRoles[] = {"nest", "finish", "shared"};
  std::string text = absl::StrCat(kRoles[static_cast<int>(function.role)], " ",
                                  function.space.empty() ? "" : function.space + ".", function.name,
                                  "(", ParametersText(function.parameters), ")");
  if (function.threads > 1) {
    absl::StrAppend(&text, " threads ", function.threads, " group ", function.group, " shared ",
                    function.shared_bytes);
  }
  return absl::StrCat(text, " {\n", ToString(function.body, 1), "}\n");
}

std::string ToString(const Kernel& kernel) {
  std::string text;
  for (const Function& function : kernel.functions) text += ToString(function) + "\n";
  if (kernel.cpu) {
    absl::StrAppend(&text, "entry ", kernel.cpu->name, " {\n", ToString(kernel.cpu->integers, 1),
                    "  a task for ", kernel.cpu->work_of_task, " operations, scratch ",
                    ToString(kernel.cpu->stride), "\n");
    for (const CpuNest& nest : kernel.cpu->nests) {
      absl::StrAppend(&text, "  run ", nest.function, " units ", ToString(nest.units), " work ",
                      ToString(nest.work), nest.finish.empty() ? "" : " then " + nest.finish, "\n");
    }
    text += "}\n";
  }
  for (const CudaEntry& entry : kernel.cuda) {
    absl::StrAppend(&text, "entry ", entry.name, " threads ", entry.threads, " resident ",
                    entry.resident, " shared ", entry.shared_bytes, entry.waits ? " waits" : "",
                    " {\n");
    for (const CudaEntry::Part& part : entry.parts) {
      absl::StrAppend(&text, "  run ", ToString(part.call));
      if (part.blocks) absl::StrAppend(&text, " blocks ", ToString(part.blocks));
      text += "\n";
    }
    text += "}\n";
  }
  return text;
}

}  // namespace tensord::compiler::ir
