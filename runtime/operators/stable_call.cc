// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <string_view>

#include "runtime/operators/externs.h"

namespace tensord::runtime {

// One letter per parameter:
//   T Tensor  i int  f float  b bool  d ScalarType  m MemoryFormat
//   L int[]  M bool[]  N Tensor[]  n Tensor?[]
// The optional forms: t Tensor?  I int?  F float?  B bool?  k ScalarType?  q MemoryFormat?  l
// int[]?
struct StableSignature {
  std::string_view op, overload;
  std::string_view parameters;
  uint32_t returns;  // tensors all
};

namespace {

// What models call most among operators that are not generated. None draws random numbers or writes
// to its arguments: a failed call may be repeated in another way.
constexpr StableSignature kSignatures[] = {
    {"aten::_adaptive_avg_pool2d", "", "TL", 1},
    {"aten::_adaptive_avg_pool2d_backward", "", "TT", 1},
    {"aten::_fft_c2c", "", "TLib", 1},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "", "TTTfbtF", 2},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", "", "TTTTTTfbtF", 3},
    {"aten::_softmax", "", "Tib", 1},
    {"aten::avg_pool2d", "", "TLLLbbI", 1},
    {"aten::avg_pool2d_backward", "", "TTLLLbbI", 1},
    {"aten::bmm", "", "TT", 1},
    {"aten::cat", "", "Ni", 1},
    {"aten::clone", "", "Tq", 1},
    {"aten::convolution", "", "TTtLLLbLi", 1},
    {"aten::convolution_backward", "", "TTTlLLLbLiM", 3},
    // The factor of what is added is a Scalar?: none, or the call goes to the bridge.
    {"aten::cudnn_convolution_add_relu", "", "TTTFtLLLi", 1},
    {"aten::cudnn_convolution_relu", "", "TTtLLLi", 1},
    {"aten::cumsum", "", "Tik", 1},
    {"aten::embedding", "", "TTibb", 1},
    {"aten::embedding_dense_backward", "", "TTiib", 1},
    {"aten::gather", "", "TiTb", 1},
    {"aten::grid_sampler_2d", "", "TTiib", 1},
    {"aten::index", "Tensor", "Tn", 1},
    {"aten::index_put", "", "TnTb", 1},
    {"aten::index_select", "", "TiT", 1},
    {"aten::linear", "", "TTt", 1},
    {"aten::max", "dim", "Tib", 2},
    {"aten::max_pool2d_with_indices", "", "TLLLLb", 2},
    {"aten::max_pool2d_with_indices_backward", "", "TTLLLLbT", 1},
    {"aten::min", "dim", "Tib", 2},
    {"aten::mm", "", "TT", 1},
    {"aten::native_group_norm", "", "Tttiiiif", 3},
    {"aten::native_layer_norm", "", "TLttf", 3},
    {"aten::scatter_add", "", "TiTT", 1},
    {"aten::select_scatter", "", "TTii", 1},
    {"aten::sort", "", "Tib", 2},
    {"aten::sort", "stable", "TBib", 2},
    {"aten::topk", "", "Tiibb", 2},
    {"aten::upsample_bilinear2d", "", "TLbFF", 1},
    {"aten::upsample_nearest2d", "", "TLFF", 1},
};

// Each optional form and what it is an option of.
constexpr std::array<std::pair<char, char>, 7> kOptional = {
    {{'t', 'T'}, {'I', 'i'}, {'F', 'f'}, {'B', 'b'}, {'l', 'L'}, {'k', 'd'}, {'q', 'm'}}};

char OptionOf(char letter) {
  for (auto [option, plain] : kOptional) {
    if (option == letter) return plain;
  }
  return 0;
}

bool IsNumber(TensordKind kind) {
  return kind == TENSORD_INT || kind == TENSORD_BOOL || kind == TENSORD_DOUBLE;
}

// What a list's items are; 0 when `letter` is no list.
char ItemOf(char letter) {
  constexpr std::pair<char, char> kLists[] = {{'L', 'i'}, {'M', 'b'}, {'N', 'T'}, {'n', 't'}};
  for (auto [list, item] : kLists) {
    if (list == letter) return item;
  }
  return 0;
}

bool Fits(const CallPlan& call, const ArgumentPlan& argument, char letter) {
  const TensordKind kind = argument.value.kind;
  if (const char plain = OptionOf(letter)) {
    return kind == TENSORD_NONE || Fits(call, argument, plain);
  }
  if (const char item = ItemOf(letter)) {
    if (kind != TENSORD_LIST) return false;
    for (size_t i = 0; i < argument.value.size; ++i) {
      if (!Fits(call, call.arguments[argument.items + i], item)) return false;
    }
    return true;
  }
  switch (letter) {
    case 'T':
      return kind == TENSORD_TENSOR;
    case 'i':
      return kind == TENSORD_INT || kind == TENSORD_BOOL;
    case 'f':
      return IsNumber(kind);
    case 'b':
      return kind == TENSORD_BOOL || kind == TENSORD_INT;
    case 'd':
      return kind == TENSORD_DTYPE;
    case 'm':
      return kind == TENSORD_MEMORY_FORMAT;
    default:
      return false;
  }
}

// Builds the dispatcher's values, which own what they point to: the call consumes them all.
class StackBuilder {
 public:
  explicit StackBuilder(const Torch& torch) : torch_(torch) {}

  bool Add(const TensordValue& value, char letter, StableValue* out) {
    if (const char plain = OptionOf(letter)) {
      *out = 0;
      if (value.kind == TENSORD_NONE) return true;
      StableValue* box = nullptr;
      if (torch_.new_stable_ivalue == nullptr) {
        box = new StableValue;  // what torch before 2.13 deletes
      } else if (torch_.new_stable_ivalue(&box) != 0) {
        return false;
      }
      *out = reinterpret_cast<StableValue>(box);
      return Add(value, plain, box);
    }
    if (const char item = ItemOf(letter)) {
      void* list = nullptr;
      if (torch_.new_list(value.size, &list) != 0) return false;
      for (size_t i = 0; i < value.size; ++i) {
        StableValue element = 0;
        if (!Add(value.items[i], item, &element) || torch_.list_push_back(list, element) != 0) {
          return false;
        }
      }
      *out = reinterpret_cast<StableValue>(list);
      return true;
    }
    if (letter == 'T') {
      Handle handle = nullptr;
      if (torch_.new_tensor_handle(value.tensor, &handle) != 0) return false;
      *out = reinterpret_cast<StableValue>(handle);
      return true;
    }
    if (letter == 'f') {
      const double real =
          value.kind == TENSORD_DOUBLE ? value.real : static_cast<double>(value.integer);
      std::memcpy(out, &real, sizeof real);
      return true;
    }
    // A bool is the value's lowest byte, enumerations its lowest four.
    *out = letter == 'b' ? value.integer != 0 : static_cast<StableValue>(value.integer);
    return true;
  }

 private:
  const Torch& torch_;
};

}  // namespace

const StableSignature* FindSignature(const CallPlan& call) {
  for (const StableSignature& row : kSignatures) {
    if (row.op != call.op || row.overload != call.overload) continue;
    if (row.parameters.size() != call.num_arguments || row.returns < call.results.size()) continue;
    bool fits = true;
    for (uint32_t i = 0; i < call.num_arguments; ++i) {
      fits = fits && Fits(call, call.arguments[i], row.parameters[i]);
    }
    if (fits) return &row;
  }
  return nullptr;
}

TensordError CallStable(const Torch& torch, const CallPlan& call, const TensordValue* arguments,
                        Handle* results) {
  const StableSignature& signature = *call.signature;
  constexpr size_t kMaxStack = 16;
  StableValue stack[kMaxStack] = {};
  StackBuilder builder(torch);
  for (size_t i = 0; i < signature.parameters.size(); ++i) {
    if (!builder.Add(arguments[i], signature.parameters[i], &stack[i])) return TENSORD_OPERATOR;
  }
  // Where this fails, torch has consumed the arguments up to the one at fault; the rest is lost,
  // once, for the operator is not called this way again.
  if (torch.call_dispatcher(call.op.c_str(), call.overload.c_str(), stack, torch.abi_version()) !=
      0) {
    return TENSORD_OPERATOR;
  }
  for (size_t i = 0; i < signature.returns; ++i) results[i] = reinterpret_cast<Handle>(stack[i]);
  return TENSORD_OK;
}

}  // namespace tensord::runtime
