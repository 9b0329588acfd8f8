// SPDX-License-Identifier: Apache-2.0
// Builds a Program from tensor expressions. Lowerings (decompose/) are written with this.
//
// A Tensor is lazy: a body that gives the value of one element at an index. Pointwise results stay
// bodies and are inlined into what reads them; `Realize` gives them a buffer. Views of realized
// tensors are strides over the same buffer; views of lazy ones rewrite the index.
//
// A complex tensor is two real ones, its parts. In memory these lie interleaved in one buffer of
// real numbers, so that loops know no complex numbers at all. A body for complex elements is run
// once for each part (Recorder::part).
#ifndef TENSORD_COMPILER_LOOP_IR_BUILDER_H_
#define TENSORD_COMPILER_LOOP_IR_BUILDER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

using Sizes = std::vector<Expr>;
using Index = std::span<const Expr>;
// The value of one element: `ops` records, `index` has one expression per dimension.
using Body = std::function<Value(Recorder& ops, Index index)>;

class Tensor {
 public:
  Tensor() = default;
  bool defined() const { return impl_ != nullptr; }
  DType dtype() const { return impl_->dtype; }
  const Sizes& sizes() const { return impl_->sizes; }
  int rank() const { return static_cast<int>(impl_->sizes.size()); }
  // Set when realized: the tensor is this view of a buffer.
  const std::optional<BufferView>& view() const { return impl_->view; }
  // Of a complex tensor the present part of the element.
  Value Load(Recorder& ops, Index index) const {
    return IsComplex(dtype()) ? impl_->parts[ops.part()].Load(ops, index) : impl_->body(ops, index);
  }
  // Of a complex tensor: the real (0) or the imaginary (1) part.
  const Tensor& part(int which) const { return impl_->parts[which]; }
  // Estimated vector instructions and buffer reads that one element costs; 0 and 1 when realized.
  int cost() const { return impl_->cost; }
  int reads() const { return impl_->reads; }
  v1::DeviceType device() const { return impl_->device; }

 private:
  friend class Builder;
  struct Impl {
    DType dtype;
    Sizes sizes;
    Body body;                  // of a real tensor
    std::vector<Tensor> parts;  // of a complex one: two
    std::optional<BufferView> view;
    int cost = 0;
    int reads = 0;
    v1::DeviceType device = v1::DEVICE_TYPE_CPU;
  };
  std::shared_ptr<const Impl> impl_;
};

// What a job asks of the code for its graph.
struct LoweringOptions {
  bool deterministic = false;  // the same sums in every run, also where that is slow
  // What eager refuses of data fails the run: indices out of range, on the CPU integers divided by
  // 0.
  bool checks_data = true;
  // What has a narrow floating type has been rounded to it, also where it is not stored.
  bool eager_rounding = false;
  // The target's warpgroups multiply matrices.
  bool has_warpgroups = false;
  // What the code will run on; unspecified: the graph's device.
  v1::DeviceType target = v1::DEVICE_TYPE_UNSPECIFIED;
};

class Builder {
 public:
  explicit Builder(v1::DeviceType device, LoweringOptions options = {})
      : device_(device), options_(options) {}

  Program& program() { return program_; }
  v1::DeviceType device() const { return device_; }
  bool deterministic() const { return options_.deterministic; }
  // The rule for indices from data, which eager checks.
  IndexRule RuleFor(int dimension, bool wraps = false) const {
    return {.wraps = wraps, .is_checked = options_.checks_data, .dimension = dimension};
  }
  // Whether numbers that eager refuses fail the run.
  bool checks_data() const { return options_.checks_data; }
  // Whether kernels of the target make this check.
  bool checks_data(DataCheck check) const {
    const bool can = target() == v1::DEVICE_TYPE_CPU || InfoOf(check).cuda_function[0] != '\0';
    return options_.checks_data && can;
  }
  // Whether integers are divided by what is checked not to be 0. On CUDA eager does not.
  bool checks_divisors() const { return checks_data(DataCheck::kDivisor); }
  // Whether narrow floats are rounded where eager rounds them.
  bool eager_rounding() const { return options_.eager_rounding; }
  // A tensor that nobody sees wider than its type, where the options ask for that; else itself.
  Tensor Rounded(const Tensor& t);
  // Names what is built next, for people: the captured node's name.
  void set_origin(std::string origin) { origin_ = std::move(origin); }

  // ---- Sources
  Tensor Input(int number, v1::DeviceType device, DType dtype, Sizes sizes, Sizes strides,
               std::string name);
  Tensor ConstantBuffer(int number, DType dtype, Sizes sizes, Sizes strides, std::string name);
  Tensor Full(DType dtype, Sizes sizes, double value);
  Tensor FullInt(DType dtype, Sizes sizes, int64_t value);

  // ---- Pointwise. `inputs` are the tensors that the body reads (for cost), `cost` what it adds.
  Tensor Pointwise(DType dtype, Sizes sizes, const std::vector<Tensor>& inputs, int cost,
                   Body body);
  // One op over broadcast operands of one dtype; the result is `dtype` (default: by the op's rule).
  Tensor Map(Op op, const std::vector<Tensor>& operands, DType dtype = v1::DTYPE_UNSPECIFIED);
  // Between real and complex types as torch does: an imaginary part of zero is added or dropped.
  Tensor Cast(const Tensor& t, DType dtype);
  Tensor Where(const Tensor& condition, const Tensor& a, const Tensor& b);

  // ---- Complex tensors
  // Of two real tensors of one size and one type. `inputs` and `cost` as of Pointwise: what both
  // parts together read and cost.
  Tensor Complex(const Tensor& real, const Tensor& imaginary, const std::vector<Tensor>& inputs,
                 int cost);
  // A complex tensor [...] as a real one [..., 2], and the other way round.
  Tensor ViewAsReal(const Tensor& t);
  Tensor ViewAsComplex(const Tensor& t);

  // ---- Reductions, realized. `dims` are non-negative and distinct; empty means all dimensions.
  // `dtype` is the accumulator's and result's type (float32 for narrow floats, then cast back). Of
  // complex tensors there are sums.
  Tensor Reduce(ReduceKind kind, const Tensor& t, std::vector<int> dims, bool keepdim, DType dtype);
  // A reduction with two results, in the compute type of t: kWelford or kOnlineSoftmax.
  std::pair<Tensor, Tensor> ReducePair(ReduceKind kind, const Tensor& t, std::vector<int> dims,
                                       bool keepdim);

  // ---- Scans: stores in the order of dimension `dim` of t, in whose values prefixes along it may
  // occur (Recorder::Scan). `element` is t's, `position` its place in that dimension.
  using ScanBody =
      std::function<std::vector<Value>(Recorder& ops, Value element, const Expr& position)>;
  // Fills `results`, which are realized and have t's sizes, with the body's values. Requires: t has
  // dimensions.
  void Scan(const Tensor& t, int dim, const std::vector<Tensor>& results, const ScanBody& body);

  // ---- Views. Sizes and dims are checked by the caller; dims are non-negative.
  Tensor Permute(const Tensor& t, const std::vector<int>& order);
  Tensor Expand(const Tensor& t, const Sizes& sizes);   // numpy broadcasting, leading dims too
  Tensor Reshape(const Tensor& t, const Sizes& sizes);  // equal element count
  Tensor Slice(const Tensor& t, int dim, const Expr& start, const Expr& length, const Expr& step);
  Tensor Select(const Tensor& t, int dim, const Expr& index);  // drops the dimension
  Tensor Squeeze(const Tensor& t, int dim);                    // of size 1
  Tensor Unsqueeze(const Tensor& t, int dim);
  // A view by strides over the buffer of a realized tensor (realizes a lazy one, contiguous).
  Tensor AsStrided(const Tensor& t, Sizes sizes, Sizes strides, const Expr& offset);
  // Any rewriting of the index: element `index` of the result is element map(index) of t.
  Tensor Reindex(const Tensor& t, Sizes sizes, std::function<std::vector<Expr>(Index)> map);

  // ---- Buffers
  // Gives a lazy tensor a buffer (contiguous, or with these strides).
  Tensor Realize(const Tensor& t);
  Tensor RealizeAs(const Tensor& t, const Sizes& strides);
  // Of a complex tensor: each part a buffer, so that who computes them and who reads them may be
  // one nest. It has no memory as a whole.
  Tensor RealizeParts(const Tensor& t);
  // A new buffer, not yet filled; fill it with Assign or Scatter. Contiguous, or with these
  // strides.
  Tensor Allocate(DType dtype, Sizes sizes, Sizes strides = {});
  // Copies `source` (cast, broadcast) into the realized `destination`, which may be a view of an
  // input.
  void Assign(const Tensor& destination, const Tensor& source);
  // For every index of `sizes`: destination[where(index)] = (or +=) value(index). `destination` is
  // realized. Equal targets in kAssign mode: one of them wins. Where `when` is given, a truth
  // value, stores happen, and values are loaded, only where it holds.
  void Scatter(const Tensor& destination, const Sizes& sizes, StoreMode mode,
               std::function<std::vector<Expr>(Recorder&, Index)> where, const Body& value,
               const Body& when = nullptr);
  // Concatenates along `dim`; each part is computed in its place. The result is contiguous, or has
  // these strides.
  Tensor Concat(const std::vector<Tensor>& parts, int dim, DType dtype, const Sizes& strides = {});

  // ---- Library operators. A result meta without dtype is an absent result.
  struct ResultMeta {
    DType dtype;
    Sizes sizes;
    Sizes strides;
  };
  // Allocated by the operator itself.
  std::vector<Tensor> Extern(std::string op, std::string overload, ExternArgList args,
                             const std::vector<ResultMeta>& results);
  // Through the operator's out= overload into buffers of ours.
  Tensor ExternOut(std::string op, std::string overload, ExternArgList args, ResultMeta result);
  // The same into a buffer of ours that there is already, or a view of one. `overwrites`: as
  // ExternOp's.
  void ExternInto(std::string op, std::string overload, ExternArgList args, const Tensor& result,
                  int overwrites = -1);
  // Products of all rows of `a` [batch, heads, rows, width] and of `b`, whose heads may be fewer:
  // lazy, float32, and never to be realized. Its body loads from a buffer that stands for them, and
  // has no memory (Attention::products).
  // `step`: tells a function's products apart.
  struct RowProducts {
    Tensor a, b;
    int64_t step;
  };
  Tensor ProductsOfRows(RowProducts of);
  // What such a buffer stands for; null of others.
  const RowProducts* ProductsIn(BufferId products) const;
  // The body of a lazy tensor as a loop over all its elements, of which `result` stands for them.
  LoopOp LoopOver(const Tensor& t, Recorder::Precision precision);
  // A call that a kernel of ours computes, into buffers of ours.
  void AttentionInto(std::string op, ExternArgList args, const std::vector<Tensor>& results,
                     Attention attention);
  // A tensor as an argument: realized, as a view.
  ExternArg TensorArg(const Tensor& t);

  BufferView ViewOf(const Tensor& t);

 private:
  v1::DeviceType target() const {
    return options_.target == v1::DEVICE_TYPE_UNSPECIFIED ? device_ : options_.target;
  }
  bool Rounds(DType dtype) const {
    return eager_rounding() && !IsComplex(dtype) && ComputeType(dtype) != dtype;
  }
  // `view.is_complex` follows from the type.
  Tensor FromView(BufferView view, DType dtype);
  Tensor CastComplex(const Tensor& t, DType dtype);
  Tensor Make(Tensor::Impl impl);
  BufferId NewBuffer(BufferKind kind, int number, DType dtype, Sizes sizes, Sizes strides,
                     std::string name);

  v1::DeviceType device_;
  LoweringOptions options_;
  Program program_;
  std::string origin_;
  std::map<BufferId, RowProducts> products_;  // ProductsIn
};

// ---- Shapes
// Sizes after numpy broadcasting; nothing when they do not agree.
std::optional<Sizes> BroadcastSizes(const Sizes& a, const Sizes& b);
bool SameSizes(const Sizes& a, const Sizes& b);
// For checks of what a graph says: false when they cannot be the same. Sizes that are written
// differently are the same where a guard of the job says so.
bool MayBeSameSizes(const Sizes& a, const Sizes& b);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_LOOP_IR_BUILDER_H_
