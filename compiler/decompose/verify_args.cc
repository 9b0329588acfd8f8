#include "compiler/decompose/verify_args.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "compiler/decompose/layout.h"

namespace tensord::compiler {
namespace {

// One word of a signature: a type with `?` and `[]` behind it, innermost first.
struct Parameter {
  std::string_view type;  // "T", "i", "str", ...
  bool optional = false;  // the argument itself may be none
  bool list = false;
  bool optional_items = false;
};

struct TypeInfo {
  std::string_view type;
  const char* description;
  bool (*accepts)(const ArgumentValue& arg);
};

using A = ArgumentValue;
bool IsWhole(const A& arg) { return arg.kind == A::kInteger || arg.kind == A::kBoolean; }

constexpr TypeInfo kTypes[] = {
    {"T", "a tensor", [](const A& a) { return a.kind == A::kValue; }},
    {"i", "an integer", IsWhole},
    // A symbolic integer where a real is asked for would have to be frozen at its hint.
    {"f", "a number that is not symbolic",
     [](const A& a) { return a.kind == A::kReal || (IsWhole(a) && a.integer.IsConstant()); }},
    {"s", "a number", [](const A& a) { return a.kind == A::kReal || IsWhole(a); }},
    {"x", "a tensor or a number",
     [](const A& a) { return a.kind == A::kValue || a.kind == A::kReal || IsWhole(a); }},
    {"b", "a boolean", [](const A& a) { return IsWhole(a) && a.integer.IsConstant(); }},
    {"str", "a text", [](const A& a) { return a.kind == A::kText; }},
    {"d", "an element type", [](const A& a) { return a.kind == A::kDType; }},
    {"v", "a device", [](const A& a) { return a.kind == A::kDevice; }},
    {"m", "a memory format", [](const A& a) { return a.kind == A::kMemoryFormat; }},
    {"l", "a layout", [](const A& a) { return a.kind == A::kLayout; }},
};

constexpr const char* kKindNames[] = {
    "none",     "a tensor",        "an integer", "a real", "a boolean", "a text", "an element type",
    "a device", "a memory format", "a layout",   "a list"};

const TypeInfo* FindType(std::string_view type) {
  for (const TypeInfo& info : kTypes) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

Parameter ParseParameter(std::string_view word) {
  Parameter parameter;
  const size_t end = word.find_first_of("?[");
  parameter.type = word.substr(0, end);
  std::string_view suffix = end == std::string_view::npos ? "" : word.substr(end);
  while (!suffix.empty()) {
    if (suffix.front() == '?') {
      parameter.optional = true;
      suffix.remove_prefix(1);
    } else {
      parameter.list = true;
      parameter.optional_items = parameter.optional;
      parameter.optional = false;
      suffix.remove_prefix(std::min<size_t>(2, suffix.size()));
    }
  }
  return parameter;
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = text.find(' ');
    if (end != 0) words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return words;
}

// Empty when it fits; else what it should have been.
std::string Mismatch(const Parameter& parameter, const ArgumentValue& arg) {
  if (parameter.type == "*") return "";
  const TypeInfo* info = FindType(parameter.type);
  if (info == nullptr) return absl::StrCat("of a known type, not ", std::string(parameter.type));
  if (parameter.optional && arg.kind == A::kNone) return "";
  if (!parameter.list) return info->accepts(arg) ? "" : info->description;
  // torch takes one integer for a list of one.
  if (arg.kind == A::kInteger && parameter.type == "i") return "";
  const std::string wanted = absl::StrCat("a list, each item ", info->description);
  if (arg.kind != A::kList) return wanted;
  for (const ArgumentValue& item : arg.items) {
    if (parameter.optional_items && item.kind == A::kNone) continue;
    if (!info->accepts(item)) return wanted;
  }
  return "";
}

bool SameSize(const Expr& lowered, const Expr& declared) {
  if (lowered == declared) return true;
  if (lowered.IsConstant() && declared.IsConstant()) return false;
  // Two symbols that the job's guards hold equal.
  return sym::Hint(lowered) == sym::Hint(declared);
}

absl::Status Invalid(const Node& node, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(Describe(node), ": ", what));
}

}  // namespace

absl::Status VerifyArguments(const Node& node, const Operator& op) {
  const std::vector<std::string_view> words = Words(op.signature);
  if (words.size() != node.args.size()) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(node), ": takes ", words.size(),
                                                   " arguments, but has ", node.args.size()));
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string wanted = Mismatch(ParseParameter(words[i]), node.args[i]);
    if (!wanted.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(Describe(node), ": argument ", i, " must be ",
                                                     wanted, ", but is ",
                                                     kKindNames[node.args[i].kind]));
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyResults(const Node& node, const std::vector<Tensor>& results) {
  if (results.size() != node.outputs.size()) {
    return Invalid(node, absl::StrCat("gives ", results.size(), " results, but ",
                                      node.outputs.size(), " are declared"));
  }
  for (size_t o = 0; o < results.size(); ++o) {
    const TensorType& declared = node.outputs[o];
    if (declared.dtype == v1::DTYPE_UNSPECIFIED) continue;
    const Tensor& t = results[o];
    if (!t.defined()) return Invalid(node, absl::StrCat("does not give result ", o));
    bool same = t.dtype() == declared.dtype && t.sizes().size() == declared.sizes.size();
    for (size_t d = 0; same && d < declared.sizes.size(); ++d) {
      same = SameSize(t.sizes()[d], declared.sizes[d]);
    }
    if (!same) {
      return Invalid(
          node, absl::StrCat("result ", o, " must be ", TypeText(t.dtype(), t.sizes()),
                             ", but is declared as ", TypeText(declared.dtype, declared.sizes)));
    }
  }
  return absl::OkStatus();
}

}  // namespace tensord::compiler
