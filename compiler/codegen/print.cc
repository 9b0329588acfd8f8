// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/print.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <functional>

#include "base/check.h"
#include "compiler/codegen/cpp_text.h"
#include "compiler/kernel_ir/prelude.h"
#include "compiler/kernel_ir/text.h"

namespace tensord::compiler {
namespace {

// How tightly an expression binds, as C++ has it.
enum Precedence {
  kTernary,
  kLogicalAnd,
  kBitAnd,
  kEquality,
  kRelation,
  kSum,
  kProduct,
  kUnary,
  kPrimary,
};

Precedence PrecedenceOf(ir::BinaryOp op) {
  switch (op) {
    case ir::BinaryOp::kAdd:
    case ir::BinaryOp::kSub:
      return kSum;
    case ir::BinaryOp::kMul:
    case ir::BinaryOp::kDiv:
    case ir::BinaryOp::kMod:
      return kProduct;
    case ir::BinaryOp::kEqual:
      return kEquality;
    case ir::BinaryOp::kAnd:
      return kLogicalAnd;
    case ir::BinaryOp::kBitAnd:
      return kBitAnd;
    default:
      return kRelation;
  }
}

// A polynomial, as sym::ToCpp writes it.
Precedence PrecedenceOf(const Expr& expr) {
  if (expr.terms().size() != 1) return kSum;
  const sym::Term& term = expr.terms()[0];
  if (term.coefficient < 0) return kSum;
  return term.coefficient == 1 && term.atoms.size() == 1 ? kPrimary : kProduct;
}

Precedence PrecedenceOf(const ir::Value& value) {
  if (const auto* binary = ir::As<ir::Binary>(value)) return PrecedenceOf(binary->op);
  if (const auto* index = ir::As<ir::IndexOf>(value)) return PrecedenceOf(index->expr);
  if (ir::As<ir::Select>(value) != nullptr) return kTernary;
  if (ir::As<ir::Unary>(value) != nullptr) return kUnary;
  return kPrimary;
}

}  // namespace

struct ValuePrinter {
  const KernelPrinter& printer;
  const ir::Type& type;

  std::string Text(const ir::Value& value) const { return printer.Text(value); }
  // An operand of what binds as tightly as `least`.
  std::string Inside(const ir::Value& value, int least) const {
    const std::string text = Text(value);
    return PrecedenceOf(value) < least ? absl::StrCat("(", text, ")") : text;
  }
  std::string List(const std::vector<ir::Value>& values) const {
    return absl::StrJoin(values, ", ",
                         [&](std::string* out, const ir::Value& value) { *out += Text(value); });
  }

  std::string operator()(const ir::Variable& variable) const { return variable.name; }
  std::string operator()(const ir::Argument& argument) const {
    switch (argument.kind) {
      case ir::Argument::kScratch:
        return printer.ScratchText();
      case ir::Argument::kCounters:
        return "args.counters";
      case ir::Argument::kInteger:
        break;
    }
    return printer.IntegerText(Text(argument.position));
  }
  std::string operator()(const ir::Builtin& builtin) const {
    static constexpr const char* kNames[] = {"threadIdx.x", "blockIdx.x", "gridDim.x"};
    return kNames[builtin.kind];
  }
  std::string operator()(const ir::Literal& literal) const {
    return LiteralText(literal.dtype, literal.number, literal.integer);
  }
  std::string operator()(const ir::Integer& integer) const {
    return absl::StrCat(integer.value, type.kind == ir::TypeKind::kUnsigned ? "u" : "");
  }
  std::string operator()(const ir::IndexOf& index) const {
    return sym::ToCpp(index.expr, [&](const sym::Atom& atom) {
      return Text(index.symbols.at({atom.kind, atom.id}));
    });
  }
  std::string operator()(const ir::Binary& binary) const {
    // Compilers warn of arithmetic that binds more tightly than `&` without parentheses.
    const int precedence = binary.op == ir::BinaryOp::kBitAnd ? kUnary : PrecedenceOf(binary.op);
    const auto* b = ir::As<ir::Binary>(binary.b);
    const bool associates = (binary.op == ir::BinaryOp::kAdd || binary.op == ir::BinaryOp::kAnd) &&
                            (b == nullptr || b->op != ir::BinaryOp::kSub);
    return absl::StrCat(Inside(binary.a, precedence), " ", ir::Spelling(binary.op), " ",
                        Inside(binary.b, associates ? precedence : precedence + 1));
  }
  std::string operator()(const ir::Unary& unary) const {
    return absl::StrCat(ir::Spelling(unary.op), Inside(unary.a, kUnary));
  }
  std::string operator()(const ir::Select& select) const {
    return absl::StrCat(Inside(select.condition, kTernary + 1), " ? ", Text(select.a), " : ",
                        Text(select.b));
  }
  std::string operator()(const ir::Convert& convert) const {
    return absl::StrCat(printer.TypeText(type), "(", Text(convert.a), ")");
  }
  std::string operator()(const ir::Cast& cast) const {
    return absl::StrCat("static_cast<", printer.TypeText(type), ">(", Text(cast.a), ")");
  }
  std::string operator()(const ir::Reinterpret& reinterpret) const {
    return absl::StrCat("reinterpret_cast<", printer.TypeText(type), ">(",
                        Text(reinterpret.address), ")");
  }
  std::string operator()(const ir::Call& call) const {
    std::string text = call.function;
    if (call.target == ir::Call::kPrelude) text = "tk::" + text;
    if (call.target == ir::Call::kTile) text = absl::StrCat(call.scope, "::", text);
    if (!call.templates.empty()) {
      absl::StrAppend(&text, "<",
                      absl::StrJoin(call.templates, ", ",
                                    [&](std::string* out, const ir::TemplateArgument& argument) {
                                      *out += TemplateText(argument);
                                    }),
                      ">");
    }
    // Constants of the prelude have names like kLanes.
    if (call.function[0] == 'k' && absl::ascii_isupper(call.function[1])) return text;
    return absl::StrCat(text, "(", List(call.operands), ")");
  }
  std::string TemplateText(const ir::TemplateArgument& argument) const {
    const auto* of_type = std::get_if<ir::Type>(&argument);
    return of_type != nullptr ? printer.TypeText(*of_type) : Text(std::get<ir::Value>(argument));
  }
  std::string operator()(const ir::Member& member) const {
    return absl::StrCat(Text(member.state), ".", member.field);
  }
  std::string operator()(const ir::Lane& lane) const {
    return absl::StrCat(Text(lane.vector), ".at[", lane.lane, "]");
  }
  std::string operator()(const ir::Element& element) const {
    return absl::StrCat(Inside(element.array, kPrimary), "[", Text(element.index), "]");
  }
  std::string operator()(const ir::Combiner& combiner) const {
    return absl::StrCat("[](auto a, auto b) { return tk::", combiner.function, "(a, b); }");
  }
  std::string operator()(const ir::Make& make) const {
    if (make.like) return absl::StrCat("decltype(", Text(make.like), "){", List(make.parts), "}");
    return absl::StrCat(printer.TypeText(type), "{{", List(make.parts), "}}");
  }
};

struct StatementPrinter {
  const KernelPrinter& printer;
  int depth;

  std::string Text(const ir::Value& value) const { return printer.Text(value); }
  std::string Indent(int more = 0) const { return std::string(2 * (depth + more), ' '); }
  std::string Line(const std::string& text) const { return absl::StrCat(Indent(), text, "\n"); }
  std::string Inside(const ir::Block& block) const { return printer.Text(block, depth + 1); }
  // One statement without others inside, which is written without braces.
  static bool IsBare(const ir::Block& block) {
    if (block.size() != 1) return false;
    const auto& node = block[0].node;
    return std::holds_alternative<ir::Assign>(node) || std::holds_alternative<ir::Run>(node) ||
           std::holds_alternative<ir::Return>(node) || std::holds_alternative<ir::Break>(node);
  }
  // The statements of a loop or condition, behind its head.
  std::string Body(const ir::Block& block, bool may_be_bare) const {
    if (may_be_bare && IsBare(block)) return absl::StrCat("\n", Inside(block));
    return absl::StrCat(" {\n", Inside(block), Indent(), "}\n");
  }

  std::string operator()(const ir::BindPointer& bind) const {
    const std::string type = printer.TypeText(bind.type);
    return Line(absl::StrCat(type, printer.Restrict(), " const ", bind.name, " = static_cast<",
                             type, ">(", printer.BufferText(Text(bind.position)), ");"));
  }
  std::string operator()(const ir::BindInteger& bind) const {
    return Line(absl::StrCat(printer.BoundIndexType(), " ", bind.name, " = ",
                             printer.IntegerText(Text(bind.position)), ";"));
  }
  std::string operator()(const ir::BindShared& bind) const {
    const std::string type = printer.TypeText(bind.type);
    const std::string at = absl::StrCat("shared_rows + ", bind.offset);
    return Line(absl::StrCat(
        type, " const ", bind.name, " = ",
        bind.type == ir::BytesType() ? at : absl::StrCat("reinterpret_cast<", type, ">(", at, ")"),
        ";"));
  }
  std::string operator()(const ir::Declare& declare) const {
    std::string type = declare.type ? printer.TypeText(*declare.type) : "auto";
    if (declare.mutability == ir::Declare::kConstexpr) {
      type = "constexpr " + type;
    } else if (declare.mutability == ir::Declare::kConstant) {
      type = declare.type && declare.type->pointer ? type + " const" : "const " + type;
    }
    return Line(
        absl::StrCat(type, " ",
                     absl::StrJoin(declare.bindings, ", ",
                                   [&](std::string* out, const ir::Declare::Binding& binding) {
                                     absl::StrAppend(out, binding.name, " = ", Text(binding.value));
                                   }),
                     ";"));
  }
  std::string operator()(const ir::DeclareArray& declare) const {
    const std::string alignment =
        declare.alignment > 0 ? absl::StrCat("alignas(", declare.alignment, ") ") : "";
    const std::string type = declare.like ? absl::StrCat("decltype(", Text(declare.like), ")")
                                          : printer.TypeText(declare.type);
    return Line(
        absl::StrCat(alignment, type, " ",
                     absl::StrJoin(declare.arrays, ", ",
                                   [&](std::string* out, const ir::DeclareArray::Array& array) {
                                     *out += array.name;
                                     if (array.count)
                                       absl::StrAppend(out, "[", Text(array.count), "]");
                                   }),
                     ";"));
  }
  std::string operator()(const ir::DeclareTile& tile) const {
    return Line(absl::StrCat("using ", tile.name, " = tk::Tile<", StorageType(tile.storage), ", ",
                             tile.along, ", ", tile.across, ", ", tile.run, ", T>;"));
  }
  std::string operator()(const ir::LocalFunction& function) const {
    return absl::StrCat(Indent(), "const auto ", function.name, " = [&](",
                        printer.ParametersText(function.parameters), ") {\n", Inside(function.body),
                        Indent(), "};\n");
  }
  std::string operator()(const ir::Assign& assign) const {
    return Line(absl::StrCat(Text(assign.target), " ", assign.op ? ir::Spelling(*assign.op) : "",
                             "= ", Text(assign.value), ";"));
  }
  std::string operator()(const ir::Run& run) const { return Line(Text(run.call) + ";"); }
  std::string operator()(const ir::For& loop) const {
    std::string text;
    if (loop.unroll == ir::For::kWhole) text = "#pragma unroll\n";
    if (loop.unroll > 0) text = absl::StrCat("#pragma unroll ", loop.unroll, "\n");
    const auto* step = ir::As<ir::Integer>(loop.step);
    absl::StrAppend(
        &text, Indent(), "for (",
        loop.first
            ? absl::StrCat(printer.TypeText(loop.type), " ", loop.variable, " = ", Text(loop.first))
            : "",
        "; ", Text(loop.condition), "; ",
        step != nullptr && step->value == 1 ? absl::StrCat("++", loop.variable)
                                            : absl::StrCat(loop.variable, " += ", Text(loop.step)),
        ")");
    return text + Body(loop.body, true);
  }
  std::string operator()(const ir::If& condition) const {
    return absl::StrCat(Indent(), IfText(condition));
  }
  // From its word on, for `else if`.
  std::string IfText(const ir::If& condition) const {
    std::string text = absl::StrCat("if (", Text(condition.condition), ")",
                                    Body(condition.then, condition.otherwise.empty()));
    if (condition.otherwise.empty()) return text;
    text.pop_back();
    const auto* next = condition.otherwise.size() == 1
                           ? std::get_if<ir::If>(&condition.otherwise[0].node)
                           : nullptr;
    return absl::StrCat(text, " else",
                        next != nullptr ? " " + IfText(*next) : Body(condition.otherwise, false));
  }
  std::string operator()(const ir::Scope& scope) const {
    return absl::StrCat(Indent(), "{\n", Inside(scope.body), Indent(), "}\n");
  }
  std::string operator()(const ir::Barrier&) const { return Line("__syncthreads();"); }
  std::string operator()(const ir::Return& result) const {
    return Line(result.value ? absl::StrCat("return ", Text(result.value), ";") : "return;");
  }
  std::string operator()(const ir::Break&) const { return Line("break;"); }
};

std::string KernelPrinter::TypeText(const ir::Type& type) const {
  std::string text;
  switch (type.kind) {
    case ir::TypeKind::kBool:
      text = "bool";
      break;
    case ir::TypeKind::kInt:
      text = "int";
      break;
    case ir::TypeKind::kUnsigned:
    case ir::TypeKind::kCounter:
      text = "unsigned";
      break;
    case ir::TypeKind::kIndex:
      text = IndexType();
      break;
    case ir::TypeKind::kInt64:
      text = "int64_t";
      break;
    case ir::TypeKind::kScalar:
      text = StorageType(type.dtype);
      break;
    case ir::TypeKind::kVector:
      text =
          absl::StrCat("tk::Vec<", StorageType(type.dtype), ", ", ir::LanesText(type.lanes), ">");
      break;
    case ir::TypeKind::kPacked:
      text = absl::StrCat("tk::Packed<", StorageType(type.dtype), ", ", ir::LanesText(type.lanes),
                          ">");
      break;
    case ir::TypeKind::kState:
      if (type.reduce == ReduceKind::kOnlineSoftmax) {
        text = absl::StrCat("tk::OnlineSoftmax<", ir::LanesText(type.lanes), ">");
      } else {
        text = absl::StrCat(type.reduce == ReduceKind::kWelford ? "tk::Welford<" : "tk::ArgVec<",
                            StorageType(type.dtype), ", ", ir::LanesText(type.lanes), ">");
      }
      break;
    case ir::TypeKind::kByte:
      text = "char";
      break;
    case ir::TypeKind::kGroupMemory:
      return "tk::GroupMemory&";
    case ir::TypeKind::kArguments:
      return ArgumentsType();
    default:
      TENSORD_CHECK(false, "no C++ type for " + ir::ToString(type));
  }
  return type.pointer ? absl::StrCat(type.constant ? "const " : "", text, "*") : text;
}

std::string KernelPrinter::Text(const ir::Value& value) const {
  return std::visit(ValuePrinter{*this, value.type()}, value->node);
}

std::string KernelPrinter::Text(const ir::Block& block, int depth) const {
  std::string text;
  for (const ir::Statement& statement : block) {
    text += std::visit(StatementPrinter{*this, depth}, statement.node);
  }
  return text;
}

std::string KernelPrinter::ParametersText(const std::vector<ir::Parameter>& parameters) const {
  return absl::StrJoin(parameters, ", ", [&](std::string* out, const ir::Parameter& parameter) {
    absl::StrAppend(out, parameter.constant ? "const " : "", TypeText(parameter.type), " ",
                    parameter.name);
  });
}

std::string KernelPrinter::IncludeOf(ir::PreludeFunction::Header which, const ir::Kernel& kernel,
                                     const std::string& header) {
  bool found = false;
  const std::function<void(const ir::Value&)> visit = [&](const ir::Value& value) {
    const auto* call = ir::As<ir::Call>(value);
    if (call != nullptr && call->target == ir::Call::kPrelude) {
      const ir::PreludeFunction* function =
          ir::FindPrelude(call->function, call->templates.size(), call->operands.size());
      found = found || (function != nullptr && function->header == which);
    }
    if (!found) ir::ForEachOperand(value, visit);
  };
  for (const ir::Function& function : kernel.functions) {
    ir::ForEachStatement(function.body, [&](const ir::Statement& statement) {
      if (!found) ir::ForEachValue(statement, visit);
    });
  }
  return found ? absl::StrCat("#include \"", header, "\"\n") : "";
}

std::string KernelPrinter::FunctionsText(const ir::Kernel& kernel) const {
  std::string text, space;
  const auto enter = [&](const std::string& next) {
    if (next == space) return;
    if (!space.empty()) absl::StrAppend(&text, "}  // namespace ", space, "\n\n");
    if (!next.empty()) absl::StrAppend(&text, "namespace ", next, " {\n");
    space = next;
  };
  for (const ir::Function& function : kernel.functions) {
    enter(function.space);
    absl::StrAppend(&text, FunctionPrefix(function.role), " ", function.name, "(",
                    ParametersText(function.parameters), ") {\n", Text(function.body, 1), "}\n\n");
  }
  enter("");
  return text;
}

}  // namespace tensord::compiler
