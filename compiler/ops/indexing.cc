// SPDX-License-Identifier: Apache-2.0
// Reading and writing at places that index tensors name.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kIndexingRows[] = {
    {"aten::embedding(Tensor weight, Tensor indices, int padding_idx, bool scale_grad_by_freq, "
     "bool sparse)"},
    {"aten::embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int "
     "padding_idx, bool scale_grad_by_freq)"},
    {"tensord::embedding_added(Tensor self, Tensor grad_output, Tensor indices, int num_weights, "
     "int padding_idx)"},
    {"aten::index.Tensor(Tensor self, Tensor?[] indices)"},
    {"aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices)"},
    {"aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate)"},
    {"aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate)"},
    {"aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate)"},
    {"aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32, bool "
     "right, "
     "str? side, Tensor? sorter)"},
    {"aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32, bool right)"},
    {"aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad)"},
    {"aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src)"},
    {"aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value)"},
    {"aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src)"},
    {"aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool "
     "include_self)"},
    {"aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool "
     "include_self)"},
    {"aten::index_select(Tensor self, int dim, Tensor index)"},
    {"aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha)"},
    {"aten::index_copy(Tensor self, int dim, Tensor index, Tensor source)"},
    {"aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value)"},
};

}  // namespace

OperatorTable IndexingTable() { return {OperatorKind::kIndexing, kIndexingRows}; }

}  // namespace tensord::compiler
