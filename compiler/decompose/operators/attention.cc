// SPDX-License-Identifier: Apache-2.0
// Chains of attention's operators, which one kernel computes a tile of scores at a time
// (attention_chains.h finds them).
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>

#include "compiler/decompose/body_reads.h"
#include "compiler/decompose/layout.h"
#include "compiler/decompose/lowering.h"

namespace tensord::compiler {
namespace {

// Elements that are copied to shared memory at once.
constexpr int kAtOnce = 8;

// Lazy: what reads them finds their operands.
Results Products(Builder& b, const Call& call) {
  return AsResults(b.ProductsOfRows(call.tensor("a"), call.tensor("b")));
}

// A tensor whose rows are contiguous and begin at multiples of kAtOnce elements: itself or a copy.
Tensor InRows(Builder& b, const Tensor& t) {
  const auto begins = [](const Expr& elements) {
    return sym::ExactDiv(elements, Expr(kAtOnce)).has_value();
  };
  if (t.view()) {
    const BufferView& view = *t.view();
    bool fits = begins(view.offset) && view.strides[3].Is(1);
    for (int d = 0; d < 3; ++d) fits = fits && (view.sizes[d].Is(1) || begins(view.strides[d]));
    if (fits) return t;
  }
  return b.Realize(LazyCopy(b, t));
}

class Chain {
 public:
  Chain(Builder& b, const Call& call, Attention::Kind kind)
      : b_(b), call_(call), attention_{.kind = kind} {}

  // `key`: the second operand of the first of two products; null where there is one.
  absl::Status Functions(std::initializer_list<const char*> names, const Tensor* key) {
    std::set<BufferId> products;
    for (const char* name : names) {
      attention_.functions.push_back(b_.LoopOver(call_.tensor(name), Recorder::kOfScores));
      for (const Inst& inst : attention_.functions.back().block.insts) {
        if (inst.kind != InstKind::kLoad) continue;
        if (b_.OperandsOf(inst.buffer) == nullptr) {
          read_.insert(inst.buffer);
        } else if (inst.index != attention_.functions.back().stores[0].index) {
          return absl::InternalError("a function reads another score's product");
        } else {
          products.insert(inst.buffer);
        }
      }
    }
    attention_.products.assign(products.begin(), products.end());
    if (key != nullptr) {
      const auto is_of_keys = [&](BufferId id) { return IsSame(b_.OperandsOf(id)->second, *key); };
      std::ranges::stable_partition(attention_.products, is_of_keys);
    }
    const size_t count = key == nullptr ? 1 : 2;
    if (attention_.products.size() != count) {
      return absl::InternalError(absl::StrCat("functions of ", attention_.products.size(),
                                              " products where there are ", count));
    }
    return absl::OkStatus();
  }

  // The operands of product number `i`.
  const std::pair<Tensor, Tensor>& Operands(int i) const {
    return *b_.OperandsOf(attention_.products[i]);
  }

  // `rows`: queries, keys, values and gradients.
  Results Into(const std::vector<Tensor>& rows, const std::vector<Tensor>& results) {
    ExternArgList args;
    for (const Tensor& t : rows) args.push_back(b_.TensorArg(InRows(b_, t)));
    for (const Tensor& t : call_.tensors("blocks")) {
      args.push_back(b_.TensorArg(WithStrides(b_, t, ContiguousStrides(t.sizes()))));
      ++attention_.lists;
    }
    const std::vector<int64_t> sizes = call_.constants("sizes");
    attention_.block_queries = sizes[0];
    attention_.block_keys = sizes[1];
    for (const BufferId id : read_) {
      args.push_back({ViewOfBuffer(id, b_.program().buffers[id])});
    }
    b_.AttentionInto(call_.node().op, std::move(args), results, std::move(attention_));
    return results;
  }

  // Result number `i` of the call, laid out as captured.
  Tensor Result(int i) const {
    const TensorType& type = call_.result(i);
    return b_.Allocate(type.dtype, type.sizes, BufferStrides(type));
  }

 private:
  static bool IsSame(const Tensor& a, const Tensor& b) {
    return a.view() && b.view() && a.view()->buffer == b.view()->buffer &&
           a.view()->offset == b.view()->offset && a.view()->sizes == b.view()->sizes &&
           a.view()->strides == b.view()->strides;
  }

  Builder& b_;
  const Call& call_;
  Attention attention_;
  std::set<BufferId> read_;
};

Results Forward(Builder& b, const Call& call) {
  Chain chain(b, call, Attention::kForward);
  TENSORD_RETURN_IF_ERROR(chain.Functions({"masked", "unmasked"}, nullptr));
  const auto& [query, key] = chain.Operands(0);
  return chain.Into({query, key, call.tensor("value")},
                    {chain.Result(0), chain.Result(1), chain.Result(2)});
}

Results QueryGradient(Builder& b, const Call& call) {
  Chain chain(b, call, Attention::kQueryGradient);
  const Tensor of_queries = call.tensor("key");
  TENSORD_RETURN_IF_ERROR(chain.Functions({"masked", "unmasked"}, &of_queries));
  const auto& [query, key] = chain.Operands(0);
  const auto& [grad, value] = chain.Operands(1);
  return chain.Into({query, key, value, grad}, {chain.Result(0)});
}

Results KeyGradients(Builder& b, const Call& call) {
  Chain chain(b, call, Attention::kKeyGradients);
  const Tensor like_key = call.tensor("like_key");
  TENSORD_RETURN_IF_ERROR(
      chain.Functions({"masked", "masked_weights", "unmasked", "unmasked_weights"}, &like_key));
  const auto& [query, key] = chain.Operands(0);
  const auto& [grad, value] = chain.Operands(1);
  return chain.Into({query, key, value, grad}, {chain.Result(0), chain.Result(1)});
}

constexpr Lowering kAttentionLowerings[] = {
    {"tensord::attention_products", Products},
    {"tensord::attention", Forward},
    {"tensord::attention_query_gradient", QueryGradient},
    {"tensord::attention_key_gradients", KeyGradients},
};

}  // namespace

std::span<const Lowering> AttentionLowerings() { return kAttentionLowerings; }

}  // namespace tensord::compiler
