// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/import.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "compiler/import/expression.h"
#include "compiler/sym/known.h"

namespace tensord::compiler {
namespace {

constexpr size_t kMaxText = 4096;
constexpr size_t kMaxName = 256;

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

// The status with `where` before its message.
absl::Status At(absl::string_view where, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

// Names end up in comments of generated code: nothing may end the comment or the line.
std::string SafeName(const std::string& name) {
  std::string safe = name.substr(0, kMaxName);
  for (char& c : safe) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') c = '_';
  }
  return safe;
}

bool IsOperatorName(std::string_view name) {
  if (name.empty() || name.size() > kMaxName) return false;
  for (const char c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != ':') return false;
  }
  return true;
}

bool IsDType(DType dtype) { return v1::DType_IsValid(dtype) && ItemSize(dtype) > 0; }
bool IsDevice(v1::DeviceType device) {
  return device == v1::DEVICE_TYPE_CPU || device == v1::DEVICE_TYPE_CUDA;
}

class Importer {
 public:
  explicit Importer(const v1::Graph& from) : from_(from) {}

  absl::StatusOr<Graph> Run() {
    if (from_.nodes_size() > kMaxNodes || from_.inputs_size() > kMaxNodes ||
        from_.constants_size() > kMaxNodes || from_.symbols_size() > kMaxSymbols) {
      return Invalid("the graph is too large: split it, or raise the limits in import.h");
    }
    TENSORD_RETURN_IF_ERROR(Symbols());
    TENSORD_RETURN_IF_ERROR(Inputs());
    TENSORD_RETURN_IF_ERROR(Constants());
    for (int i = 0; i < from_.nodes_size(); ++i) {
      TENSORD_RETURN_IF_ERROR(ImportNode(i));
    }
    for (int i = 0; i < from_.outputs_size(); ++i) {
      TENSORD_RETURN_IF_ERROR(Output(i));
    }
    return std::move(graph_);
  }

 private:
  absl::Status Symbols() {
    for (int i = 0; i < from_.symbols_size(); ++i) {
      const v1::Symbol& symbol = from_.symbols(i);
      if (symbol.hint() < symbol.min() || symbol.max() < symbol.hint()) {
        return Invalid(absl::StrCat("symbol ", i, ": needs min <= hint <= max, not ", symbol.min(),
                                    ", ", symbol.hint(), ", ", symbol.max()));
      }
      if (symbol.has_definition()) {
        const absl::Status status = CheckDefinition(symbol.definition(), symbols_);
        if (!status.ok()) return At(absl::StrCat("symbol ", i), status);
      }
      symbols_.push_back(Expr::Size(i, symbol.min(), symbol.hint(), symbol.from_data()));
      graph_.symbols.push_back(symbol);
    }
    return absl::OkStatus();
  }

  absl::Status Inputs() {
    std::set<int> bound;
    const auto bind = [&](const Expr& e) {
      if (const sym::Atom* atom = e.AsAtom(); atom && atom->kind == sym::AtomKind::kSize) {
        bound.insert(atom->id);
      }
    };
    for (int i = 0; i < from_.inputs_size(); ++i) {
      const v1::Input& from = from_.inputs(i);
      const std::string where = absl::StrCat("input ", i);
      GraphInput input;
      input.name = from.name().empty() ? absl::StrCat("input", i) : SafeName(from.name());
      input.is_parameter = from.is_parameter();
      input.is_donated = from.is_donated();
      if (from.kind_case() == v1::Input::kTensor) {
        absl::StatusOr<TensorType> type = Type(from.tensor());
        if (!type.ok()) return At(where, type.status());
        input.tensor = *std::move(type);
        for (const Expr& size : input.tensor.sizes) bind(size);
      } else if (from.kind_case() == v1::Input::kSize) {
        absl::StatusOr<Expr> integer = ImportExpr(from.size(), symbols_);
        if (!integer.ok()) return At(where, integer.status());
        input.is_tensor = false;
        input.integer = *std::move(integer);
        bind(input.integer);
      } else {
        return Invalid(where + ": is neither a tensor nor a size");
      }
      if (input.is_donated && (input.is_parameter || !input.is_tensor)) {
        return Invalid(where + ": is_donated is for tensors that are no parameters");
      }
      graph_.inputs.push_back(std::move(input));
    }
    for (int i = 0; i < from_.symbols_size(); ++i) {
      if (bound.count(i) == 0 && !from_.symbols(i).has_definition()) {
        return Invalid(
            absl::StrCat("symbol ", i, ": is not the size of any input, and has no definition"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Constants() {
    for (int i = 0; i < from_.constants_size(); ++i) {
      const v1::Constant& from = from_.constants(i);
      const std::string where = absl::StrCat("constant ", i);
      absl::StatusOr<TensorType> type = Type(from.meta());
      if (!type.ok()) return At(where, type.status());
      if (from.data().size() > kMaxConstantBytes) {
        return Invalid(absl::StrCat(where, ": has ", from.data().size(), " bytes; more than ",
                                    kMaxConstantBytes, " must be an input"));
      }
      int64_t count = 1, extent = 1;
      for (size_t d = 0; d < type->sizes.size(); ++d) {
        const auto size = type->sizes[d].AsConstant(), stride = type->strides[d].AsConstant();
        if (!size || !stride) return Invalid(where + ": has a symbolic shape");
        // Type() has bounded the product of all sizes, and each (size - 1) * stride.
        count *= *size;
        extent += *size > 0 ? (*size - 1) * *stride : 0;
      }
      if (!type->offset.Is(0) || (count > 0 && extent != count)) {
        return Invalid(where + ": is not dense from its first element");
      }
      if (static_cast<int64_t>(from.data().size()) != count * ItemSize(type->dtype)) {
        return Invalid(absl::StrCat(where, ": has ", from.data().size(), " bytes for ", count,
                                    " elements of ", DTypeName(type->dtype)));
      }
      graph_.constants.push_back(from);
      graph_.constants.back().set_name(SafeName(from.name()));
      graph_.constant_types.push_back(*std::move(type));
    }
    return absl::OkStatus();
  }

  absl::Status ImportNode(int i) {
    const v1::Node& from = from_.nodes(i);
    Node node;
    node.name = from.name().empty() ? absl::StrCat("node", i) : SafeName(from.name());
    if (!IsOperatorName(from.op()) ||
        (!from.overload().empty() && !IsOperatorName(from.overload()))) {
      return Invalid(absl::StrCat("node '", node.name, "': malformed operator name"));
    }
    node.op = from.overload().empty() || from.overload() == "default"
                  ? from.op()
                  : absl::StrCat(from.op(), ".", from.overload());
    const int limit = graph_.FirstNodeValue() + i;
    for (int a = 0; a < from.args_size(); ++a) {
      absl::StatusOr<ArgumentValue> arg = ImportArgument(from.args(a), limit, 0);
      if (!arg.ok()) return At(absl::StrCat(Describe(node), ": argument ", a), arg.status());
      node.args.push_back(*std::move(arg));
    }
    for (int o = 0; o < from.outputs_size(); ++o) {
      if (from.outputs(o).dtype() == v1::DTYPE_UNSPECIFIED) {
        node.outputs.push_back({});
        continue;
      }
      absl::StatusOr<TensorType> type = Type(from.outputs(o));
      if (!type.ok()) return At(absl::StrCat(Describe(node), ": result ", o), type.status());
      node.outputs.push_back(*std::move(type));
    }
    graph_.nodes.push_back(std::move(node));
    return absl::OkStatus();
  }

  absl::Status Output(int i) {
    const std::string where = absl::StrCat("output ", i);
    const int limit = graph_.FirstNodeValue() + static_cast<int>(graph_.nodes.size());
    absl::StatusOr<ArgumentValue> arg = ImportArgument(from_.outputs(i), limit, 0);
    if (!arg.ok()) return At(where, arg.status());
    if (arg->kind != ArgumentValue::kValue && arg->kind != ArgumentValue::kInteger &&
        arg->kind != ArgumentValue::kNone) {
      return Invalid(where + ": is neither a value nor an integer nor none");
    }
    graph_.outputs.push_back(*std::move(arg));
    return absl::OkStatus();
  }

  // A tensor's type; all of it must be addressable.
  absl::StatusOr<TensorType> Type(const v1::TensorMeta& from) {
    TensorType type;
    type.dtype = from.dtype();
    type.device = from.device();
    if (!IsDType(from.dtype())) return Invalid("the tensor has no known element type");
    if (!IsDevice(from.device())) return Invalid("the tensor has no known device");
    if (from.sizes_size() > kMaxRank) {
      return Invalid(absl::StrCat("rank ", from.sizes_size(), " is above ", kMaxRank));
    }
    if (from.sizes_size() != from.strides_size()) {
      return Invalid(
          absl::StrCat(from.sizes_size(), " sizes but ", from.strides_size(), " strides"));
    }
    // In elements, at the hints. Zero sizes count as one: strides are computed from the others.
    double count = 1, extent = 0;
    for (int d = 0; d < from.sizes_size(); ++d) {
      TENSORD_ASSIGN_OR_RETURN(Expr size, ImportExpr(from.sizes(d), symbols_));
      TENSORD_ASSIGN_OR_RETURN(Expr stride, ImportExpr(from.strides(d), symbols_));
      if (!sym::MayBeSize(size)) return Invalid(absl::StrCat("size ", d, " is negative"));
      if (!sym::MayBeSize(stride)) return Invalid(absl::StrCat("stride ", d, " is negative"));
      const int64_t size_hint = sym::Hint(size), stride_hint = sym::Hint(stride);
      count *= std::max<double>(1, static_cast<double>(size_hint));
      extent += static_cast<double>(size_hint) * static_cast<double>(stride_hint);
      type.sizes.push_back(std::move(size));
      type.strides.push_back(std::move(stride));
    }
    if (from.has_storage_offset()) {
      TENSORD_ASSIGN_OR_RETURN(type.offset, ImportExpr(from.storage_offset(), symbols_));
    }
    if (!sym::MayBeSize(type.offset)) return Invalid("the storage offset is negative");
    const int64_t offset = sym::Hint(type.offset);
    constexpr double kMaxElements = 1.0e17;  // times 16 bytes stays below 2^61
    if (count > kMaxElements || extent + static_cast<double>(offset) > kMaxElements) {
      return Invalid("the tensor is larger than any memory");
    }
    return type;
  }

  // `limit`: the number of the first value that does not exist yet.
  absl::StatusOr<ArgumentValue> ImportArgument(const v1::Argument& from, int limit, int depth) {
    ArgumentValue arg;
    switch (from.kind_case()) {
      case v1::Argument::kNone:
        return arg;
      case v1::Argument::kValue:
        return Reference(from.value(), limit);
      case v1::Argument::kInteger:
        return ImportInteger(from.integer());
      case v1::Argument::kReal:
        arg.kind = ArgumentValue::kReal;
        arg.real = from.real();
        return arg;
      case v1::Argument::kBoolean:
        arg.kind = ArgumentValue::kBoolean;
        arg.integer = Expr(from.boolean() ? 1 : 0);
        return arg;
      case v1::Argument::kText:
        if (from.text().size() > kMaxText) return Invalid("the text is too long");
        arg.kind = ArgumentValue::kText;
        arg.text = from.text();
        return arg;
      case v1::Argument::kDtype:
        if (!IsDType(from.dtype())) return Invalid("unknown element type");
        arg.kind = ArgumentValue::kDType;
        arg.dtype = from.dtype();
        return arg;
      case v1::Argument::kDevice:
        if (!IsDevice(from.device())) return Invalid("unknown device");
        arg.kind = ArgumentValue::kDevice;
        arg.device = from.device();
        return arg;
      case v1::Argument::kMemoryFormat:
        if (!v1::MemoryFormat_IsValid(from.memory_format()))
          return Invalid("unknown memory format");
        arg.kind = ArgumentValue::kMemoryFormat;
        arg.memory_format = from.memory_format();
        return arg;
      case v1::Argument::kLayoutStrided:
        arg.kind = ArgumentValue::kLayout;
        return arg;
      case v1::Argument::kList:
        return ImportList(from.list(), limit, depth);
      case v1::Argument::KIND_NOT_SET:
        break;
    }
    return Invalid("is empty");
  }

  absl::StatusOr<ArgumentValue> ImportInteger(const v1::SymExpr& from) {
    ArgumentValue arg{.kind = ArgumentValue::kInteger};
    // Plain numbers may be as large as they like: "to the end" of a slice is the largest there is.
    if (from.kind_case() == v1::SymExpr::kConstant) {
      arg.integer = Expr(static_cast<int64_t>(from.constant()));
    } else {
      TENSORD_ASSIGN_OR_RETURN(arg.integer, ImportExpr(from, symbols_));
    }
    return arg;
  }

  absl::StatusOr<ArgumentValue> ImportList(const v1::ArgumentList& from, int limit, int depth) {
    if (depth >= kMaxListDepth) {
      return Invalid(absl::StrCat("lists are nested more than ", kMaxListDepth, " deep"));
    }
    ArgumentValue list{.kind = ArgumentValue::kList};
    for (const v1::Argument& item : from.items()) {
      TENSORD_ASSIGN_OR_RETURN(ArgumentValue value, ImportArgument(item, limit, depth + 1));
      list.items.push_back(std::move(value));
    }
    return list;
  }

  absl::StatusOr<ArgumentValue> Reference(const v1::ValueRef& from, int limit) {
    if (from.value() >= static_cast<uint32_t>(limit)) {
      return Invalid(absl::StrCat("refers to value ", from.value(), ", but only ", limit,
                                  " values come before"));
    }
    ArgumentValue arg;
    arg.kind = ArgumentValue::kValue;
    arg.value = static_cast<int>(from.value());
    arg.output = static_cast<int>(from.output());
    const int node = arg.value - graph_.FirstNodeValue();
    const uint32_t results =
        node < 0 ? 1 : static_cast<uint32_t>(graph_.nodes[node].outputs.size());
    if (from.output() >= results) {
      return Invalid(absl::StrCat("refers to result ", from.output(), " of value ", from.value(),
                                  ", which has ", results));
    }
    if (node >= 0 && graph_.nodes[node].outputs[arg.output].dtype == v1::DTYPE_UNSPECIFIED) {
      return ArgumentValue{};
    }
    if (arg.value < static_cast<int>(graph_.inputs.size()) && !graph_.inputs[arg.value].is_tensor) {
      arg.kind = ArgumentValue::kInteger;
      arg.integer = graph_.inputs[arg.value].integer;
      arg.value = -1;
    }
    return arg;
  }

  const v1::Graph& from_;
  std::vector<Expr> symbols_;
  Graph graph_;
};

}  // namespace

absl::StatusOr<Graph> Import(const v1::Graph& graph) { return Importer(graph).Run(); }

}  // namespace tensord::compiler
