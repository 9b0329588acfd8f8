// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/product_shape.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

namespace tensord::runtime {
namespace {

// Positions of an out= call's arguments; -1: it has none. Beta and alpha follow the right operand.
struct Form {
  std::string_view op;
  uint32_t num_arguments;
  int added, left, right, gelu, out;
  bool batched;
};
constexpr Form kForms[] = {
    {"aten::mm", 3, -1, 0, 1, -1, 2, false},
    {"aten::bmm", 3, -1, 0, 1, -1, 2, true},
    {"aten::addmm", 6, 0, 1, 2, -1, 5, false},
    {"aten::baddbmm", 6, 0, 1, 2, -1, 5, true},
    {"aten::_addmm_activation", 7, 0, 1, 2, 5, 6, false},
};

struct Type {
  int32_t torch;
  int cuda;
};
constexpr Type kTypes[] = {{5, kLtFloat16}, {15, kLtBfloat16}};

// A buffer as rows and columns.
struct Matrix {
  uint32_t buffer = 0;
  int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 0;
  int64_t batch = 1, batch_stride = 0;

  bool by_rows() const {
    return (column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1);
  }
  Matrix Transposed() const {
    Matrix result = *this;
    std::swap(result.rows, result.columns);
    std::swap(result.row_stride, result.column_stride);
    return result;
  }
};

// `call` writes element for element over what it reads, the result of a product before it.
bool IsInPlace(const CallPlan& call, std::string_view op, uint32_t num_arguments, uint32_t result) {
  return call.op == op && call.overload == "out" && call.into_out &&
         call.num_arguments == num_arguments && call.arguments[0].buffer == result &&
         call.arguments[num_arguments - 1].buffer == result;
}

class Finder {
 public:
  Finder(const TensordProgram& program, const CallPlan& call)
      : program_(program), call_(call), values_(program.exprs.values().data()) {}

  std::optional<ProductCall> Find() {
    const auto* form = std::ranges::find(kForms, std::string_view(call_.op), &Form::op);
    if (form == std::end(kForms) || !call_.into_out || call_.overload != "out" ||
        call_.num_arguments != form->num_arguments) {
      return std::nullopt;
    }
    const auto left = MatrixOf(form->left, form->batched);
    const auto right = MatrixOf(form->right, form->batched);
    const auto out = MatrixOf(form->out, form->batched);
    if (!left || !right || !out) return std::nullopt;
    left_ = *left, right_ = *right, out_ = *out;
    if (left_.rows != out_.rows || right_.columns != out_.columns || left_.columns != right_.rows ||
        left_.batch != out_.batch || right_.batch != out_.batch) {
      return std::nullopt;
    }
    ProductCall result;
    if (form->added >= 0 && !Add(*form, &result.shape)) return std::nullopt;
    if (!out_.by_rows()) {
      // A result by columns is a result by rows of the transposed product.
      if (result.shape.has_bias()) return std::nullopt;
      left_ = std::exchange(right_, left_.Transposed()).Transposed();
      out_ = out_.Transposed();
      if (added_) added_ = added_->Transposed();
    }
    return Fill(result) ? std::optional(result) : std::nullopt;
  }

  // aten::add(result, bias) and aten::relu(result), in place, as the product's epilogue.
  void TakeIn(const CallPlan& add, const CallPlan& relu, ProductCall* product) {
    const uint32_t result = call_.results.front();
    float factor = 0;
    if (product->shape.has_bias() || product->shape.batch != 1 || product->d != result ||
        !IsInPlace(add, "aten::add", 4, result) || !IsInPlace(relu, "aten::relu", 2, result) ||
        !Number(add.arguments[2], &factor) || factor != 1) {
      return;
    }
    const uint32_t bias = add.arguments[1].buffer;
    if (bias == ArgumentPlan::kNothing) return;
    const Layout &row = program_.buffers[bias].layout, &out = program_.buffers[result].layout;
    const bool fits = row.ndim == 1 && row.dtype == out.dtype && row.device == out.device &&
                      values_[row.sizes] == product->shape.m && values_[row.strides] == 1 &&
                      values_[out.strides + 1] == 1;  // a bias[m] is one for each column
    if (!fits) return;
    product->bias = bias;
    product->shape.epilogue = kLtReluBias;
    product->calls = 3;
  }

 private:
  const ArgumentPlan& Argument(int position) const {
    return call_.arguments[static_cast<size_t>(position)];
  }

  // The layout of an argument; null for what is no matrix of 16-bit floats on CUDA.
  const Layout* LayoutOf(int argument) const {
    const uint32_t buffer = Argument(argument).buffer;
    if (buffer == ArgumentPlan::kNothing) return nullptr;
    const Layout& layout = program_.buffers[buffer].layout;
    const bool fits = layout.device == kTorchCuda &&
                      std::ranges::find(kTypes, layout.dtype, &Type::torch) != std::end(kTypes);
    return fits ? &layout : nullptr;
  }

  std::optional<Matrix> MatrixOf(int argument, bool batched) const {
    const Layout* layout = LayoutOf(argument);
    if (layout == nullptr || layout->ndim != (batched ? 3 : 2)) return std::nullopt;
    const int64_t* sizes = values_ + layout->sizes;
    const int64_t* strides = values_ + layout->strides;
    Matrix result;
    result.buffer = Argument(argument).buffer;
    if (batched) {
      result.batch = *sizes++;
      result.batch_stride = *strides++;
    }
    result.rows = sizes[0], result.columns = sizes[1];
    result.row_stride = strides[0], result.column_stride = strides[1];
    constexpr int64_t kMost = INT32_MAX;
    for (int64_t size : {result.batch, result.rows, result.columns}) {
      if (size < 1 || size > kMost) return std::nullopt;
    }
    return result;
  }

  bool Number(const ArgumentPlan& plan, float* number) const {
    if (plan.value.kind == TENSORD_DOUBLE) {
      *number = static_cast<float>(plan.value.real);
    } else if (plan.value.kind == TENSORD_INT && plan.slot != ArgumentPlan::kNothing) {
      *number = static_cast<float>(values_[plan.slot]);
    } else if (plan.value.kind == TENSORD_BOOL) {
      *number = static_cast<float>(plan.value.integer);
    } else {
      return false;
    }
    return true;
  }

  // What is added: nothing, a bias for each column, or a whole matrix.
  bool Add(const Form& form, ProductShape* shape) {
    const Layout* layout = LayoutOf(form.added);
    if (layout == nullptr || !Number(Argument(form.right + 1), &shape->beta) ||
        !Number(Argument(form.right + 2), &shape->alpha)) {
      return false;
    }
    const bool activation = form.gelu >= 0;
    if (shape->beta == 0 && !activation) return true;
    const int64_t* sizes = values_ + layout->sizes;
    const int64_t* strides = values_ + layout->strides;
    const int32_t last = layout->ndim - 1;
    const bool row =
        !form.batched && (last == 0 || (last == 1 && (sizes[0] == 1 || strides[0] == 0)));
    if (row && sizes[last] == out_.columns && strides[last] == 1 && shape->beta == 1) {
      bias_ = Argument(form.added).buffer;
      shape->beta = 0;
      shape->epilogue = kLtBias;
      if (activation) {
        float gelu = 0;
        if (!Number(Argument(form.gelu), &gelu)) return false;
        shape->epilogue = gelu != 0 ? kLtGeluBias : kLtReluBias;
      }
      return true;
    }
    if (activation) return false;
    added_ = MatrixOf(form.added, form.batched);
    return added_ && added_->rows == out_.rows && added_->columns == out_.columns &&
           added_->batch == out_.batch;
  }

  // `matrix` as cuBLAS is to see its transpose.
  static bool Describe(const Matrix& matrix, ProductOperand* operand) {
    const Matrix transposed = matrix.Transposed();
    operand->transposed = !matrix.by_rows();
    if (operand->transposed && !transposed.by_rows()) return false;
    const Matrix& lines = operand->transposed ? transposed : matrix;
    operand->leading = lines.rows == 1 ? lines.columns : lines.row_stride;
    operand->batch_stride = matrix.batch == 1 ? 0 : matrix.batch_stride;
    return true;
  }

  // By rows is the transpose by columns, and the transpose of a product is that of the transposed
  // operands, the other way round.
  bool Fill(ProductCall& call) const {
    ProductShape& shape = call.shape;
    const int32_t dtype = program_.buffers[out_.buffer].layout.dtype;
    for (uint32_t buffer : {left_.buffer, right_.buffer, added_ ? added_->buffer : out_.buffer,
                            bias_.value_or(out_.buffer)}) {
      if (program_.buffers[buffer].layout.dtype != dtype) return false;
    }
    shape.type = std::ranges::find(kTypes, dtype, &Type::torch)->cuda;
    shape.m = out_.columns, shape.n = out_.rows, shape.k = left_.columns, shape.batch = out_.batch;
    call.a = right_.buffer, call.b = left_.buffer, call.d = call.c = out_.buffer;
    if (!Describe(right_, &shape.a) || !Describe(left_, &shape.b) || !Describe(out_, &shape.d) ||
        shape.d.transposed) {
      return false;
    }
    shape.most_workspace =
        std::bit_floor(std::clamp(call_.spare_bytes, kLeastWorkspace, kMostWorkspace));
    shape.c = shape.d;
    if (bias_) call.bias = *bias_;
    if (!added_) return true;
    call.c = added_->buffer;
    return Describe(*added_, &shape.c) && !shape.c.transposed;
  }

  const TensordProgram& program_;
  const CallPlan& call_;
  const int64_t* values_;
  Matrix left_, right_, out_;
  std::optional<Matrix> added_;
  std::optional<uint32_t> bias_;
};

}  // namespace

std::optional<ProductCall> FindProduct(const TensordProgram& program,
                                       std::span<const std::unique_ptr<CallPlan>> calls) {
  if (!program.exprs.is_static()) return std::nullopt;
  Finder finder(program, *calls[0]);
  std::optional<ProductCall> found = finder.Find();
  if (found && calls.size() > 2) finder.TakeIn(*calls[1], *calls[2], &*found);
  return found;
}

}  // namespace tensord::runtime
