// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/operators.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

struct TypeWord {
  std::string_view word;
  ArgumentType type;
  const char* description;
};

constexpr TypeWord kTypes[] = {
    {"Tensor", ArgumentType::kTensor, "a tensor"},
    {"int", ArgumentType::kInteger, "an integer"},
    {"float", ArgumentType::kReal, "a number that is not symbolic"},
    {"Scalar", ArgumentType::kNumber, "a number"},
    {"Tensor|Scalar", ArgumentType::kTensorOrNumber, "a tensor or a number"},
    {"bool", ArgumentType::kBoolean, "a boolean"},
    {"str", ArgumentType::kText, "a text"},
    {"ScalarType", ArgumentType::kDType, "an element type"},
    {"Device", ArgumentType::kDevice, "a device"},
    {"MemoryFormat", ArgumentType::kMemoryFormat, "a memory format"},
    {"Layout", ArgumentType::kLayout, "a layout"},
    {"Generator", ArgumentType::kGenerator, "none"},
};

// What stands in front of the first `separator`, which is taken off with it.
std::string_view Take(std::string_view* text, std::string_view separator) {
  const size_t end = text->find(separator);
  const std::string_view head = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + separator.size());
  return head;
}

// "Tensor?[] indices"
Parameter ParseParameter(std::string_view text, std::string_view schema) {
  std::string_view suffix = Take(&text, " ");
  const std::string_view word = suffix.substr(0, suffix.find_first_of("?[("));
  suffix.remove_prefix(word.size());
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const TypeWord& row) { return row.word == word; });
  TENSORD_CHECK(type != std::end(kTypes), absl::StrCat("unknown type in ", std::string(schema)));
  Parameter parameter{.name = text, .type = type->type};
  constexpr std::string_view kWritten = "(a!)", kList = "[]";
  while (!suffix.empty()) {
    if (suffix.starts_with(kWritten)) {
      parameter.written = true;
      suffix.remove_prefix(kWritten.size());
    } else if (suffix.starts_with(kList)) {
      parameter.list = true;
      parameter.optional_items = parameter.optional;
      parameter.optional = false;
      suffix.remove_prefix(kList.size());
    } else {
      TENSORD_CHECK(suffix.front() == '?', absl::StrCat("malformed: ", std::string(schema)));
      parameter.optional = true;
      suffix.remove_prefix(1);
    }
  }
  return parameter;
}

Operator Parse(OperatorKind kind, const OperatorRow& row) {
  Operator op{.schema = row.schema, .kind = kind, .traits = row.traits};
  std::string_view rest = row.schema;
  op.name = Take(&rest, "(");
  TENSORD_CHECK(rest.ends_with(")"), absl::StrCat("malformed: ", row.schema));
  rest.remove_suffix(1);
  while (!rest.empty()) {
    const std::string_view parameter = Take(&rest, ", ");
    if (parameter == "*") continue;
    op.parameters.push_back(ParseParameter(parameter, row.schema));
    if (op.parameters.back().written) op.written = static_cast<int>(op.parameters.size()) - 1;
  }
  return op;
}

struct Table {
  std::vector<Operator> operators;
  absl::flat_hash_map<std::string_view, const Operator*> by_name;
};

const Table& TheTable() {
  static const Table* const table = [] {
    auto* all = new Table;
    for (const OperatorTable& part : {PointwiseTable(),     SpecialFunctionTable(),
                                      ForeachTable(),       ActivationTable(),
                                      ReductionTable(),     ScanTable(),
                                      NormalizationTable(), LossTable(),
                                      ViewTable(),          ConcatenationTable(),
                                      CreationTable(),      IndexingTable(),
                                      ProductTable(),       ProductByRowsTable(),
                                      ConvolutionTable(),   AttentionTable(),
                                      PoolingTable(),       RandomTable(),
                                      AssertionTable(),     CallBackTable()}) {
      for (const OperatorRow& row : part.rows) all->operators.push_back(Parse(part.kind, row));
    }
    std::sort(all->operators.begin(), all->operators.end(),
              [](const Operator& a, const Operator& b) { return a.name < b.name; });
    for (const Operator& op : all->operators) {
      const bool is_new = all->by_name.emplace(op.name, &op).second;
      TENSORD_CHECK(is_new, absl::StrCat("two lines of ", std::string(op.name)));
    }
    return all;
  }();
  return *table;
}

}  // namespace

int Operator::Position(std::string_view argument) const {
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name == argument) return static_cast<int>(i);
  }
  return -1;
}

const Operator* FindOperator(std::string_view name) {
  const auto it = TheTable().by_name.find(name);
  return it == TheTable().by_name.end() ? nullptr : it->second;
}

std::span<const Operator> AllOperators() { return TheTable().operators; }

const char* DescriptionOf(ArgumentType type) {
  const auto* row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [type](const TypeWord& word) { return word.type == type; });
  return row->description;
}

}  // namespace tensord::compiler
