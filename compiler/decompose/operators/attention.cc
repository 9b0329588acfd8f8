// SPDX-License-Identifier: Apache-2.0
// Chains of attention's operators, which one kernel computes a tile of scores at a time
// (attention_chains.h finds them).
#include <absl/strings/str_cat.h>

#include <cmath>
#include <map>
#include <set>

#include "compiler/decompose/attention_chains.h"
#include "compiler/decompose/layout.h"
#include "compiler/decompose/lowering.h"

namespace tensord::compiler {
namespace {

// Lazy: what reads them finds their operands.
Results Products(Builder& b, const Call& call) {
  return AsResults(b.ProductsOfRows({call.tensor("a"), call.tensor("b"), call.constant("step")}));
}

// A tensor whose rows are contiguous and begin at multiples of kAttentionCopy elements: itself or a
// copy.
Tensor InRows(Builder& b, const Tensor& t) {
  const auto begins = [](const Expr& elements) {
    return sym::ExactDiv(elements, Expr(kAttentionCopy)).has_value();
  };
  if (t.view()) {
    const BufferView& view = *t.view();
    bool fits = begins(view.offset) && view.strides[3].Is(1);
    for (int d = 0; d < 3; ++d) fits = fits && (view.sizes[d].Is(1) || begins(view.strides[d]));
    if (fits) return t;
  }
  return b.Realize(LazyCopy(b, t));
}

// By instruction: whether it depends on products.
std::vector<bool> DependOnProducts(const Builder& b, const Block& block) {
  std::vector<bool> depend;
  for (const Inst& inst : block.insts) {
    bool depends = inst.kind == InstKind::kLoad && b.ProductsIn(inst.buffer) != nullptr;
    for (const int arg : inst.args) depends = depends || depend[arg];
    depend.push_back(depends);
  }
  return depend;
}

// Quotients of products by numbers become products: of sums of 16-bit numbers one rounding more is
// nothing. What is made of places alone stays exact.
void ReplaceQuotients(const Builder& b, LoopOp* function) {
  const std::vector<bool> depend = DependOnProducts(b, function->block);
  Block result;
  std::vector<int> moved;  // by old number
  for (Inst inst : function->block.insts) {
    for (int& arg : inst.args) arg = moved[arg];
    if (inst.guard >= 0) inst.guard = moved[inst.guard];
    const bool divides = inst.kind == InstKind::kCompute && inst.op == Op::k_div &&
                         inst.dtype == kFloat32 && depend[moved.size()];
    if (divides && result.insts[inst.args[1]].kind == InstKind::kConstant) {
      const double reciprocal = 1 / result.insts[inst.args[1]].number;
      if (std::isnormal(static_cast<float>(reciprocal))) {
        result.insts.push_back(
            {.kind = InstKind::kConstant, .dtype = kFloat32, .number = reciprocal});
        inst.op = Op::k_mul;
        inst.args[1] = static_cast<int>(result.insts.size()) - 1;
      }
    }
    moved.push_back(static_cast<int>(result.insts.size()));
    result.insts.push_back(std::move(inst));
  }
  function->block = std::move(result);
  function->stores[0].value = moved[function->stores[0].value];
}

class Chain {
 public:
  Chain(Builder& b, const Call& call, Attention::Kind kind)
      : b_(b), call_(call), attention_{.kind = kind} {}

  // Of that many products, the first of which is of the least step.
  absl::Status Functions(std::initializer_list<const char*> names, size_t count) {
    std::map<int64_t, BufferId> products;  // by step
    for (const char* name : names) {
      LoopOp function = b_.LoopOver(call_.tensor(name), Recorder::kOfScores);
      for (const Inst& inst : function.block.insts) {
        if (inst.kind != InstKind::kLoad) continue;
        const Builder::RowProducts* of = b_.ProductsIn(inst.buffer);
        if (of == nullptr) {
          read_.insert(inst.buffer);
        } else if (products.emplace(of->step, inst.buffer).first->second != inst.buffer) {
          return absl::InternalError("two products of one step");
        }
      }
      ReplaceQuotients(b_, &function);
      attention_.functions.push_back(std::move(function));
    }
    for (const auto& [step, id] : products) attention_.products.push_back(id);
    if (products.size() == count) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("functions of ", products.size(), " products where there are ", count));
  }

  // What product number `i` is of.
  const Builder::RowProducts& Of(int i) const { return *b_.ProductsIn(attention_.products[i]); }

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
  Builder& b_;
  const Call& call_;
  Attention attention_;
  std::set<BufferId> read_;
};

Results Forward(Builder& b, const Call& call) {
  Chain chain(b, call, Attention::kForward);
  TENSORD_RETURN_IF_ERROR(chain.Functions({"masked", "unmasked"}, 1));
  return chain.Into({chain.Of(0).a, chain.Of(0).b, call.tensor("value")},
                    {chain.Result(0), chain.Result(1), chain.Result(2)});
}

Results QueryGradient(Builder& b, const Call& call) {
  Chain chain(b, call, Attention::kQueryGradient);
  TENSORD_RETURN_IF_ERROR(chain.Functions({"masked", "unmasked"}, 2));
  return chain.Into({chain.Of(0).a, chain.Of(0).b, chain.Of(1).b, chain.Of(1).a},
                    {chain.Result(0)});
}

Results KeyGradients(Builder& b, const Call& call) {
  Chain chain(b, call, Attention::kKeyGradients);
  TENSORD_RETURN_IF_ERROR(
      chain.Functions({"masked", "masked_weights", "unmasked", "unmasked_weights"}, 2));
  return chain.Into({chain.Of(0).a, chain.Of(0).b, chain.Of(1).b, chain.Of(1).a},
                    {chain.Result(0), chain.Result(1)});
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
