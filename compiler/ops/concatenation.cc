// SPDX-License-Identifier: Apache-2.0
// Tensors made of parts: joined, padded, repeated, put back. All of them copy.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kConcatenationRows[] = {
    {"aten::cat(Tensor[] tensors, int dim)", kAnyResultLayout},
    {"aten::stack(Tensor[] tensors, int dim)"},
    {"aten::constant_pad_nd(Tensor self, int[] pad, Scalar value)", kAnyResultLayout},
    {"tensord::zero_padded(Tensor self, int[] size)"},
    // Of a matrix; what is behind the end of its rows may be anything.
    {"tensord::padded_rows(Tensor x, int columns)"},
    {"aten::repeat(Tensor self, int[] repeats)"},
    {"aten::flip(Tensor self, int[] dims)"},
    {"aten::roll(Tensor self, int[] shifts, int[] dims)"},
    {"aten::slice_scatter(Tensor self, Tensor src, int dim, int? start, int? end, int step)"},
    {"aten::select_scatter(Tensor self, Tensor src, int dim, int index)"},
    {"aten::as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? "
     "storage_offset)"},
    {"aten::slice_backward(Tensor grad_output, int[] input_sizes, int dim, int start, int end, int "
     "step)"},
    {"aten::select_backward(Tensor grad_output, int[] input_sizes, int dim, int index)"},
    {"aten::diagonal_scatter(Tensor self, Tensor src, int offset, int dim1, int dim2)"},
    // Views with memory of their own
    {"aten::view_copy(Tensor self, int[] size)"},
    {"aten::as_strided_copy(Tensor self, int[] size, int[] stride, int? storage_offset)"},
    {"aten::permute_copy(Tensor self, int[] dims)"},
    {"aten::narrow_copy(Tensor self, int dim, int start, int length)"},
    {"aten::unbind_copy.int(Tensor self, int dim)"},
};

}  // namespace

OperatorTable ConcatenationTable() { return {OperatorKind::kConcatenation, kConcatenationRows}; }

}  // namespace tensord::compiler
