// SPDX-License-Identifier: Apache-2.0
#include "server/compile/key_contents.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"

namespace tensord::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Of a large training graph: all parameters of the usual ones.
constexpr int kMostInputs = 512;
constexpr size_t kMostTextBytes = 120;
constexpr size_t kShownBuildDigits = 12;

// A field's name, and its value in words; of two keys those that differ are told.
using Fields = std::map<std::string, std::string>;

// "MODE_MAX_AUTOTUNE" -> "max_autotune": without what all names of the type begin with.
std::string EnumText(const google::protobuf::EnumDescriptor& type, int number) {
  const google::protobuf::EnumValueDescriptor* value = type.FindValueByNumber(number);
  if (value == nullptr) return absl::StrCat(number);
  std::string_view common = type.value(0)->name();
  for (int i = 1; i < type.value_count(); ++i) {
    const std::string_view name = type.value(i)->name();
    const auto end = std::mismatch(common.begin(), common.end(), name.begin(), name.end()).first;
    common = common.substr(0, static_cast<size_t>(end - common.begin()));
  }
  return absl::AsciiStrToLower(value->name().substr(common.rfind('_') + 1));
}

std::string TextOf(const v1::SymExpr& expression) {
  switch (expression.kind_case()) {
    case v1::SymExpr::kConstant:
      return absl::StrCat(expression.constant());
    case v1::SymExpr::kSymbol:
      return absl::StrCat("s", expression.symbol());
    case v1::SymExpr::kOp:
      return absl::StrCat(
          EnumText(*v1::SymOp::Kind_descriptor(), expression.op().kind()), "(",
          absl::StrJoin(expression.op().args(), ", ",
                        [](std::string* out, const auto& arg) { *out += TextOf(arg); }),
          ")");
    default:
      return "0";
  }
}

template <class List>
std::string ListText(const List& expressions) {
  return absl::StrCat(
      "[",
      absl::StrJoin(expressions, ", ",
                    [](std::string* out, const v1::SymExpr& one) { *out += TextOf(one); }),
      "]");
}

// "float32[8, s0] on cpu, strides [s0, 1], a parameter"
std::string TextOf(const v1::Input& input) {
  std::string text;
  if (input.has_size()) {
    text = absl::StrCat("the size ", TextOf(input.size()));
  } else {
    const v1::TensorMeta& meta = input.tensor();
    text = absl::StrCat(EnumText(*v1::DType_descriptor(), meta.dtype()), ListText(meta.sizes()),
                        " on ", EnumText(*v1::DeviceType_descriptor(), meta.device()), ", strides ",
                        ListText(meta.strides()));
    if (const std::string offset = TextOf(meta.storage_offset()); offset != "0") {
      absl::StrAppend(&text, ", offset ", offset);
    }
  }
  return absl::StrCat(text, input.is_parameter() ? ", a parameter" : "",
                      input.is_donated() ? ", donated" : "");
}

std::string TextOf(const v1::Symbol& symbol) {
  return absl::StrCat("hint ", symbol.hint(), ", from ", symbol.min(), " to ", symbol.max(),
                      symbol.from_data() ? ", from data" : "");
}

std::string ScalarText(const Message& message, const FieldDescriptor* field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumText(*field->enum_type(), reflection.GetEnumValue(message, field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(reflection.GetUInt32(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(reflection.GetUInt64(message, field));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, field);
    default:
      return "?";  // target and options have no others; the part is named, then
  }
}

// Every scalar field of the message, set or not, and of the messages that it has.
void AddFields(const Message& message, const std::string& name, Fields& fields) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    const std::string path = absl::StrCat(name, ".", field->name());
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      fields[path] = ScalarText(message, field);
    } else if (reflection.HasField(message, field)) {
      AddFields(reflection.GetMessage(message, field), path, fields);
    }
  }
}

// Which fields say what is in the parts of a key.
Fields FieldsOf(KeyPart part, const v1::ProgramDetail& detail) {
  const v1::KeyContents& contents = detail.key_contents();
  Fields fields;
  switch (part) {
    case KeyPart::kOperators:
      for (const v1::OperatorCount& one : contents.operators()) {
        fields[absl::StrCat("operators ", one.op())] = absl::StrCat(one.count());
      }
      break;
    case KeyPart::kInputs:
      fields["inputs"] = absl::StrCat(contents.input_count());
      for (int i = 0; i < contents.symbols_size(); ++i) {
        fields[absl::StrCat("symbols[", i, "]")] = TextOf(contents.symbols(i));
      }
      for (int i = 0; i < contents.inputs_size(); ++i) {
        fields[absl::StrCat("inputs[", i, "]")] = TextOf(contents.inputs(i));
      }
      break;
    case KeyPart::kTarget:
      AddFields(contents.target(), "target", fields);
      break;
    case KeyPart::kOptions:
      AddFields(contents.options(), "options", fields);
      break;
    case KeyPart::kToolchain:
      fields["toolchain"] = detail.toolchain();
      break;
    case KeyPart::kCompiler:
      fields["compiler_build"] = ToHex(detail.compiler_build()).substr(0, kShownBuildDigits);
      fields["compiler_version"] = absl::StrCat(contents.compiler_version());
      fields["artifact_format"] = absl::StrCat(contents.artifact_format());
      break;
    case KeyPart::kLiterals:
    case KeyPart::kConstants:
    case KeyPart::kResults:
      break;
  }
  return fields;
}

constexpr std::pair<KeyPart, const char*> kParts[] = {
    {KeyPart::kOperators, "operators"}, {KeyPart::kLiterals, "literals"},
    {KeyPart::kInputs, "inputs"},       {KeyPart::kConstants, "constants"},
    {KeyPart::kResults, "results"},     {KeyPart::kTarget, "target"},
    {KeyPart::kOptions, "options"},     {KeyPart::kToolchain, "toolchain"},
    {KeyPart::kCompiler, "compiler"},
};
static_assert(std::size(kParts) == kKeyParts);

v1::KeyDifference Difference(const std::string& field, const std::string& wanted,
                             const std::string& stored) {
  v1::KeyDifference difference;
  difference.set_field(field);
  difference.set_wanted(wanted);
  difference.set_stored(stored);
  return difference;
}

void AddDifferences(const Fields& wanted, const Fields& stored,
                    std::vector<v1::KeyDifference>& differences) {
  Fields all = wanted;
  all.insert(stored.begin(), stored.end());
  const auto value = [](const Fields& fields, const std::string& name) {
    const auto found = fields.find(name);
    return found == fields.end() ? "none" : Cut(found->second, kMostTextBytes);
  };
  for (const auto& [name, unused] : all) {
    const auto a = wanted.find(name), b = stored.find(name);
    if (a != wanted.end() && b != stored.end() && a->second == b->second) continue;
    differences.push_back(Difference(name, value(wanted, name), value(stored, name)));
  }
}

}  // namespace

DescribedKey DescribeKey(const v1::Graph& graph, const v1::Target& target,
                         const v1::CompileOptions& options, const ProgramKey& key) {
  DescribedKey described{TakeApart(graph, key), {}};
  described.detail.set_compiler_build(key.compiler_build);
  described.detail.set_toolchain(key.toolchain);
  v1::KeyContents& contents = *described.detail.mutable_key_contents();
  *contents.mutable_target() = target;
  *contents.mutable_options() = options;
  *contents.mutable_symbols() = graph.symbols();
  contents.set_input_count(static_cast<uint32_t>(graph.inputs_size()));
  for (int i = 0; i < std::min(graph.inputs_size(), kMostInputs); ++i) {
    v1::Input& input = *contents.add_inputs();
    input = graph.inputs(i);
    input.clear_name();
  }
  std::map<std::string, uint32_t> counts;
  for (const v1::Node& node : graph.nodes()) {
    ++counts[node.overload().empty() ? node.op() : absl::StrCat(node.op(), ".", node.overload())];
  }
  for (const auto& [op, count] : counts) {
    v1::OperatorCount& one = *contents.add_operators();
    one.set_op(op);
    one.set_count(count);
  }
  contents.set_compiler_version(key.compiler_version);
  contents.set_artifact_format(key.artifact_format);
  return described;
}

std::vector<v1::KeyDifference> DifferencesOf(const DescribedKey& wanted,
                                             const DescribedKey& stored) {
  const auto differs = [&](KeyPart part) { return wanted.parts[part] != stored.parts[part]; };
  const bool results_follow = differs(KeyPart::kOperators) || differs(KeyPart::kInputs);
  std::vector<v1::KeyDifference> differences;
  for (const auto& [part, name] : kParts) {
    if (!differs(part) || (part == KeyPart::kResults && results_follow)) continue;
    const size_t before = differences.size();
    if (stored.detail.has_key_contents()) {
      AddDifferences(FieldsOf(part, wanted.detail), FieldsOf(part, stored.detail), differences);
    }
    if (differences.size() == before) differences.push_back(Difference(name, "", ""));
  }
  return differences;
}

}  // namespace tensord::server
