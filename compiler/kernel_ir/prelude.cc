// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_ir/prelude.h"

#include <map>

#include "base/check.h"
#include "compiler/loop_ir/ops.h"

namespace tensord::compiler::ir {
namespace {

constexpr auto kCpu = PreludeFunction::kCpu;
constexpr auto kCuda = PreludeFunction::kCuda;
constexpr auto kBoth = PreludeFunction::kBoth;
constexpr auto kAttention = PreludeFunction::kAttention;

// clang-format off
constexpr PreludeFunction kFunctions[] = {
    // Loads: of the storage type t, as vectors of its compute type.
    {"load", kBoth, "tw", "p", 'v'},
    {"load_tail", kBoth, "tw", "pi", 'v'},
    {"load_masked", kBoth, "tw", "pm", 'v'},
    {"load_unaligned", kCuda, "tw", "p", 'v'},
    {"load_evict_last", kCuda, "tw", "p", 'v'},
    {"load_packed", kCuda, "tw", "p", 'k'},
    {"load_evict_last_packed", kCuda, "tw", "p", 'k'},
    {"unpack", kCuda, "tw", "k", 'v'},
    {"load_even", kBoth, "tw", "p", 'v'},
    {"load_odd", kBoth, "tw", "p", 'v'},
    {"strided", kBoth, "tw", "pi", 'v'},
    {"strided_tail", kBoth, "tw", "pii", 'v'},
    {"strided_masked", kBoth, "tw", "pim", 'v'},
    {"gather", kBoth, "tw", "pv", 'v'},
    {"gather_masked", kBoth, "tw", "pvm", 'v'},
    // Stores.
    {"store", kBoth, "tw", "qe", '-', true},
    {"store_tail", kBoth, "tw", "qei", '-', true},
    {"store_masked", kBoth, "tw", "qem", '-', true},
    {"store_pairs", kBoth, "tw", "qee", '-', true},
    {"store_strided", kBoth, "tw", "qie", '-', true},
    {"store_strided_tail", kCpu, "tw", "qiei", '-', true},
    {"store_strided_masked", kBoth, "tw", "qiem", '-', true},
    {"scatter_masked", kBoth, "tw", "qvem", '-', true},
    {"scatter_add", kBoth, "tw", "qvem", '-', true},
    {"scatter_mul", kCpu, "tw", "qvem", '-', true},
    {"scatter_min", kCpu, "tw", "qvem", '-', true},
    {"scatter_max", kCpu, "tw", "qvem", '-', true},
    {"scatter_add_run", kCuda, "tw", "qem", '-', true},
    {"transpose", kCpu, "tw", "piqi", '-', true},
    {"Tile::fill", kCuda, "", "qpiii", '-', true},
    {"Tile::read", kCuda, "w", "pii", 'y'},
    // Indices from data: the index in range. CPU: of the launch, index, size, dimension.
    {"checked_index", kCpu, "", "yvii", '1'},
    {"checked_index", kCpu, "", "yviim", '1'},
    {"wrapped_index", kCpu, "", "yvii", '1'},
    {"wrapped_index", kCpu, "", "yviim", '1'},
    {"checked_index", kCuda, "", "vi", '0'},
    {"checked_index", kCuda, "", "vim", '0'},
    {"wrapped_index", kCuda, "", "vi", '0'},
    {"wrapped_index", kCuda, "", "vim", '0'},
    {"noted_index", kCuda, "", "viy", '0', true},
    {"noted_index", kCuda, "", "viym", '0', true},
    {"noted_wrapped_index", kCuda, "", "viy", '0', true},
    {"noted_wrapped_index", kCuda, "", "viym", '0', true},
    {"fail_if", kCuda, "", "y", '-', true},
    // Numbers that eager may refuse. CPU: of the launch, number.
    {"checked_divisor", kCpu, "", "yv", '1'},
    {"checked_divisor", kCpu, "", "yvm", '1'},
    {"checked_probability", kCpu, "", "yv", '1'},
    {"checked_probability", kCpu, "", "yvm", '1'},
    {"checked_target", kCpu, "", "yv", '1'},
    {"checked_target", kCpu, "", "yvm", '1'},
    {"checked_drawn_probability", kCpu, "", "yv", '1'},
    {"checked_drawn_probability", kCpu, "", "yvm", '1'},
    {"checked_deviation", kCpu, "", "yv", '1'},
    {"checked_deviation", kCpu, "", "yvm", '1'},
    {"checked_probability", kCuda, "", "v", '0'},
    {"checked_probability", kCuda, "", "vm", '0'},
    // Vectors.
    {"broadcast", kBoth, "w", "s", 'w'},
    {"splat", kBoth, "w", "u", 'w'},
    {"iota", kBoth, "tw", "i", 'v'},
    {"iota_by", kCuda, "tw", "ii", 'v'},
    {"get", kBoth, "", "ei", 's'},
    {"cast", kBoth, "t", "e", 'v'},
    {"bitcast", kBoth, "t", "e", 'v'},
    {"round_to", kBoth, "t", "e", 'v'},
    {"mask_first", kBoth, "w", "i", 'm'},
    {"equal_lane", kCuda, "w", "ii", 'm'},
    {"sub_at", kCuda, "", "viiu", '0'},
    {"philox_uniform_run", kCuda, "w", "uui", 'f'},
    {"philox_normal_run", kCuda, "w", "uui", 'f'},
    {"philox_at_least_run", kCuda, "w", "uuii", 'm'},
    // Numbers.
    {"highest", kBoth, "t", "", 't'},
    {"lowest", kBoth, "t", "", 't'},
    {"infinity", kBoth, "t", "", 't'},
    {"quiet_nan", kBoth, "t", "", 't'},
    {"min_index", kBoth, "", "ii", 'n'},
    {"max_index", kBoth, "", "ii", 'n'},
    {"floor_div_index", kBoth, "", "ii", 'n'},
    {"mod_index", kBoth, "", "ii", 'n'},
    {"kLanes", kCpu, "", "", 'i'},
    {"part_of", kCuda, "", "iic", 'i'},
    // Across lanes.
    {"reduce_sum", kBoth, "", "e", 's'},
    {"reduce_prod", kBoth, "", "e", 's'},
    {"reduce_min", kBoth, "", "e", 's'},
    {"reduce_max", kBoth, "", "e", 's'},
    {"reduce_any", kBoth, "", "m", 's'},
    {"reduce_all", kBoth, "", "m", 's'},
    {"scan", kCpu, "", "uvc", '1', true},
    {"scan_extreme", kCpu, "", "uvc", '1', true},
    {"scan_in_order", kCpu, "", "uvc", '1', true},
    {"scan_sums", kCpu, "", "uv", '1', true},
    {"scan_products", kCpu, "", "uv", '1', true},
    // States of reductions.
    {"welford_start", kBoth, "tw", "", 'x'},
    {"welford_add", kBoth, "", "xv", '0'},
    {"welford_add_tail", kCpu, "", "xvi", '0'},
    {"welford_add_masked", kCuda, "", "xvm", '0'},
    {"welford_combine", kBoth, "", "xx", '0'},
    {"welford_reduce", kBoth, "", "x", 'r'},
    {"softmax_start", kBoth, "tw", "", 'x'},
    {"softmax_add", kBoth, "", "xv", '0'},
    {"softmax_add_tail", kCpu, "", "xvi", '0'},
    {"softmax_add_masked", kCuda, "", "xvm", '0'},
    {"softmax_combine", kBoth, "", "xx", '0'},
    {"softmax_reduce", kBoth, "", "x", 'r'},
    {"argmax_start", kBoth, "tw", "", 'x'},
    {"argmax_add", kBoth, "", "xei", '0'},
    {"argmax_add_tail", kCpu, "", "xeii", '0'},
    {"argmax_combine", kBoth, "", "xx", '0'},
    {"argmax_reduce", kBoth, "", "x", 'r'},
    {"argmin_start", kBoth, "tw", "", 'x'},
    {"argmin_add", kBoth, "", "xei", '0'},
    {"argmin_add_tail", kCpu, "", "xeii", '0'},
    {"argmin_combine", kBoth, "", "xx", '0'},
    {"argmin_reduce", kBoth, "", "x", 'r'},
    // Across threads.
    {"groups_of", kCuda, "", "g", 'g'},
    {"group_barrier", kCuda, "nn", "", '-', true, Meets::kGroup},
    {"group_add", kCuda, "n", "sg", '0', false, Meets::kGroup},
    {"group_mul", kCuda, "n", "sg", '0', false, Meets::kGroup},
    {"group_min", kCuda, "n", "sg", '0', false, Meets::kGroup},
    {"group_max", kCuda, "n", "sg", '0', false, Meets::kGroup},
    {"group_any", kCuda, "n", "sg", '0', false, Meets::kGroup},
    {"group_all", kCuda, "n", "sg", '0', false, Meets::kGroup},
    {"group_add_each", kCuda, "n", "vg", '0', false, Meets::kGroup},
    {"group_welford", kCuda, "n", "xg", '0', false, Meets::kGroup},
    {"group_softmax", kCuda, "n", "xg", '0', false, Meets::kGroup},
    {"group_argmax", kCuda, "n", "xg", '0', false, Meets::kGroup},
    {"group_argmin", kCuda, "n", "xg", '0', false, Meets::kGroup},
    {"group_scan", kCuda, "n", "uvcsg", '1', true, Meets::kGroup},
    {"group_total", kCuda, "n", "vcsg", 's', false, Meets::kGroup},
    {"group_before", kCuda, "tn", "picsg", 't', false, Meets::kBlock},
    {"combine_groups", kCuda, "nn", "ycg", '0', true, Meets::kBlock},
    {"combine_groups", kCuda, "nnn", "acg", '-', true, Meets::kBlock},
    {"is_last_block", kCuda, "", "qi", 'b', true, Meets::kBlock},
    {"wait_for_launches", kCuda, "", "", '-', true},
    // Attention. Rows: the first element, and elements from batch to batch, head to head, row to row.
    {"rows", kCuda, "t", "piii", 'o', false, Meets::kNobody, kAttention},
    {"result_rows", kCuda, "t", "qiii", 'o', false, Meets::kNobody, kAttention},
    // Lists of blocks: counts, numbers, batches, heads, rows and columns.
    {"blocks", kCuda, "", "ppiiii", 'o', false, Meets::kNobody, kAttention},
    {"all_blocks", kCuda, "", "", 'o', false, Meets::kNobody, kAttention},
    // heads, groups, queries, keys, width, value width, queries and keys of a block.
    {"attention_sizes", kCuda, "", "iiiiiiii", 'o', false, Meets::kNobody, kAttention},
    {"joined", kCuda, "w", "u", 'f', false, Meets::kNobody, kAttention},
    {"joined", kCuda, "w", "uu", 'f', false, Meets::kNobody, kAttention},
    {"joined", kCuda, "w", "uuu", 'f', false, Meets::kNobody, kAttention},
    {"joined", kCuda, "w", "uuuu", 'f', false, Meets::kNobody, kAttention},
    {"exp_approx", kCuda, "", "v", '0', false, Meets::kNobody, kAttention},
    // Block number, shared memory, rows, results, sizes, partial and whole blocks, forward's factor,
    // functions.
    {"attention_forward", kCuda, "tnnn", "igooooqqooosccc", '-', true, Meets::kBlock, kAttention},
    {"attention_query_gradient", kCuda, "tnnn", "igooooooooccc", '-', true, Meets::kBlock,
     kAttention},
    {"attention_key_gradients", kCuda, "tnnn", "igoooooooooccccc", '-', true, Meets::kBlock,
     kAttention},
};
// clang-format on

// The scalar operations, as functions of vectors.
const std::map<std::string_view, PreludeFunction>& ScalarOperations() {
  static const auto* const operations = [] {
    auto* all = new std::map<std::string_view, PreludeFunction>;
    const auto add = [all](const OpInfo& info) {
      static constexpr std::string_view kOperands = "eee";
      char result = '0';
      if (info.result == OpResult::Bool) result = 'm';
      if (info.result == OpResult::Second) result = '1';
      if (info.result == OpResult::Float32) result = 'f';
      all->emplace(info.name,
                   PreludeFunction{.name = info.name,
                                   .devices = kBoth,
                                   .operands = kOperands.substr(0, info.arity),
                                   .result = result,
                                   .header = info.is_special ? PreludeFunction::kSpecial
                                                             : PreludeFunction::kCommon});
    };
#define TENSORD_OP(name, ...) add(InfoOf(Op::k_##name));
#include "compiler/loop_ir/ops.def"
    return all;
  }();
  return *operations;
}

const std::multimap<std::string_view, const PreludeFunction*>& ByName() {
  static const auto* const by_name = [] {
    auto* all = new std::multimap<std::string_view, const PreludeFunction*>;
    for (const PreludeFunction& function : kFunctions) all->emplace(function.name, &function);
    return all;
  }();
  return *by_name;
}

ReduceKind StateNamed(std::string_view function) {
  if (function.starts_with("welford")) return ReduceKind::kWelford;
  if (function.starts_with("softmax")) return ReduceKind::kOnlineSoftmax;
  return function.starts_with("argmax") ? ReduceKind::kArgMax : ReduceKind::kArgMin;
}

}  // namespace

std::span<const PreludeFunction> PreludeFunctions() { return kFunctions; }

const PreludeFunction* FindPrelude(std::string_view name, size_t templates, size_t operands) {
  const auto matches = [&](const PreludeFunction& function) {
    return function.templates.size() == templates && function.operands.size() == operands;
  };
  const auto& operations = ScalarOperations();
  if (const auto it = operations.find(name); it != operations.end()) {
    return matches(it->second) ? &it->second : nullptr;
  }
  const auto [begin, end] = ByName().equal_range(name);
  for (auto it = begin; it != end; ++it) {
    if (matches(*it->second)) return it->second;
  }
  return nullptr;
}

int LanesOf(const Value& argument) {
  const auto* number = As<Integer>(argument);
  return number == nullptr ? kWidth : static_cast<int>(number->value);
}

Type ResultType(const PreludeFunction& function, const std::vector<TemplateArgument>& templates,
                const std::vector<Value>& operands) {
  DType dtype = v1::DTYPE_UNSPECIFIED;
  int lanes = 1;
  for (const Value& operand : operands) {
    if (operand.type().IsVector()) lanes = operand.type().lanes;
  }
  for (size_t i = 0; i < templates.size(); ++i) {
    if (const auto* type = std::get_if<Type>(&templates[i])) dtype = type->dtype;
    const auto* value = std::get_if<Value>(&templates[i]);
    if (function.templates[i] == 'w' && value != nullptr) lanes = LanesOf(*value);
  }
  const DType compute = ComputeType(dtype);
  switch (function.result) {
    case 'b':
      return kBoolType;
    case 'i':
      return kIntType;
    case 'n':
      return kIndexType;
    case 't':
      return ScalarType(compute);
    case 'v':
      return VectorType(compute, lanes);
    case 'k':
      return PackedType(dtype, lanes);
    case 'm':
      return MaskType(lanes);
    case '0':
      return operands[0].type();
    case '1':
      return operands[1].type();
    case 's':
      return ScalarType(operands[0].type().dtype);
    case 'w': {
      const Type& of = operands[0].type();
      return VectorType(of.IsInteger()               ? kInt64
                        : of.kind == TypeKind::kBool ? kBool
                                                     : of.dtype,
                        lanes);
    }
    case 'f':
      return VectorType(kFloat32, lanes);
    case 'r': {
      Type state = operands[0].type();
      state.lanes = 1;
      return state;
    }
    case 'x':
      return StateType(StateNamed(function.name), compute, lanes);
    case 'g':
      return kGroupMemoryType;
    case 'o':
      return kStructType;
    default:
      return kVoidType;
  }
}

bool Fits(char letter, const Type& type) {
  const bool bytes = type.pointer && type.kind == TypeKind::kByte;
  switch (letter) {
    case 'v':
      return type.IsVector() && !type.IsMask();
    case 'u':
      return type.IsVector() && type.lanes == 1;
    case 'm':
      return type.IsMask();
    case 'e':
      return type.IsVector();
    case 'x':
      return type.kind == TypeKind::kState && !type.pointer;
    case 'k':
      return type.kind == TypeKind::kPacked && !type.pointer;
    case 's':
      return !type.pointer && (type.kind == TypeKind::kScalar || type.kind == TypeKind::kBool ||
                               type.kind == TypeKind::kInt64);
    case 'i':
      return type.IsInteger() || (type.kind == TypeKind::kScalar && type.dtype == kInt64);
    case 'p':
      return type.pointer && !bytes;
    case 'q':
      return type.pointer && !bytes && !type.constant;
    case 'g':
      return type.kind == TypeKind::kGroupMemory || bytes;
    case 'c':
      return type.kind == TypeKind::kFunction;
    case 'o':
      return type.kind == TypeKind::kStruct;
    case 'a':
      return type.pointer && (type.kind == TypeKind::kVector || type.kind == TypeKind::kState);
    default:
      return !type.pointer;
  }
}

}  // namespace tensord::compiler::ir
