// SPDX-License-Identifier: Apache-2.0
// The same elements in another order, or their bits as another type.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kViewsRows[] = {
    {"aten::alias(Tensor self)", kHasCopy},
    {"aten::detach(Tensor self)", kHasCopy},
    {"aten::lift_fresh(Tensor self)"},
    {"aten::view(Tensor self, int[] size)", kHasCopy},
    {"aten::_unsafe_view(Tensor self, int[] size)"},
    {"aten::reshape(Tensor self, int[] shape)"},
    {"aten::_reshape_alias(Tensor self, int[] size, int[] stride)", kHasCopy},
    {"aten::view.dtype(Tensor self, ScalarType dtype)", kHasCopy},
    {"aten::expand(Tensor self, int[] size, *, bool implicit)", kHasCopy},
    {"prims::broadcast_in_dim(Tensor a, int[] shape, int[] broadcast_dimensions)"},
    {"aten::permute(Tensor self, int[] dims)", kHasCopy},
    {"aten::transpose.int(Tensor self, int dim0, int dim1)", kHasCopy},
    {"aten::swapaxes(Tensor self, int axis0, int axis1)"},
    {"aten::t(Tensor self)", kHasCopy},
    {"aten::squeeze(Tensor self)", kHasCopy},
    {"aten::squeeze.dim(Tensor self, int dim)", kHasCopy},
    {"aten::squeeze.dims(Tensor self, int[] dim)", kHasCopy},
    {"aten::unsqueeze(Tensor self, int dim)", kHasCopy},
    {"aten::slice.Tensor(Tensor self, int dim, int? start, int? end, int step)", kHasCopy},
    {"aten::select.int(Tensor self, int dim, int index)", kHasCopy},
    {"aten::unbind.int(Tensor self, int dim)", kHasCopy},
    {"aten::split.Tensor(Tensor self, int split_size, int dim)", kHasCopy},
    {"aten::unsafe_split.Tensor(Tensor self, int split_size, int dim)"},
    {"aten::split_with_sizes(Tensor self, int[] split_sizes, int dim)", kHasCopy},
    {"aten::unsafe_split_with_sizes(Tensor self, int[] split_sizes, int dim)"},
    {"aten::chunk(Tensor self, int chunks, int dim)"},
    {"aten::unsafe_chunk(Tensor self, int chunks, int dim)"},
    {"aten::as_strided(Tensor self, int[] size, int[] stride, int? storage_offset)", kHasCopy},
    {"aten::diagonal(Tensor self, int offset, int dim1, int dim2)", kHasCopy},
    {"aten::unfold(Tensor self, int dimension, int size, int step)", kHasCopy},
    // Of complex numbers
    {"aten::_conj(Tensor self)", kByLibrary | kHasCopy},
    {"aten::_neg_view(Tensor self)", kByLibrary | kHasCopy},
    {"aten::view_as_complex(Tensor self)", kHasCopy},
    {"aten::view_as_real(Tensor self)", kHasCopy},
};

}  // namespace

OperatorTable ViewTable() { return {OperatorKind::kView, kViewsRows}; }

}  // namespace tensord::compiler
