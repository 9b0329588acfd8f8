// SPDX-License-Identifier: Apache-2.0
// Operators whose lowering is right for complex numbers too: it moves elements, or adds them up,
// and is run for each part; or it asks for magnitudes.
#include <string_view>

#include "compiler/decompose/lowering.h"

namespace tensord::compiler {
namespace {

constexpr std::string_view kNames[] = {
    // Copies
    "aten::clone",
    "aten::lift_fresh_copy",
    "aten::_to_copy",
    "prims::convert_element_type",
    "aten::copy",
    "aten::copy_",
    "aten::view_copy",
    "aten::as_strided_copy",
    "aten::permute_copy",
    "aten::narrow_copy",
    "aten::unbind_copy.int",
    "aten::diagonal_scatter",
    // Of one number
    "aten::full",
    "aten::zeros",
    "aten::ones",
    "aten::empty.memory_format",
    "aten::empty_strided",
    "aten::empty_permuted",
    "aten::full_like",
    "aten::zeros_like",
    "aten::ones_like",
    "aten::empty_like",
    "aten::new_full",
    "aten::new_zeros",
    "aten::new_ones",
    "aten::new_empty",
    "aten::new_empty_strided",
    "aten::fill.Scalar",
    "aten::fill.Tensor",
    "aten::zero",
    "aten::scalar_tensor",
    "aten::tril",
    "aten::triu",
    // Parts and places
    "aten::cat",
    "aten::stack",
    "aten::constant_pad_nd",
    "aten::repeat",
    "aten::flip",
    "aten::roll",
    "aten::slice_scatter",
    "aten::select_scatter",
    "aten::as_strided_scatter",
    "aten::slice_backward",
    "aten::select_backward",
    "aten::index.Tensor",
    "aten::_unsafe_index.Tensor",
    "aten::index_put",
    "aten::_unsafe_index_put",
    "aten::index_put_",
    "aten::gather",
    "aten::scatter.src",
    "aten::scatter.value",
    "aten::scatter_add",
    "aten::index_select",
    "aten::index_add",
    "aten::index_copy",
    "aten::index_fill.int_Scalar",
    "aten::embedding",
    // Sums and norms
    "aten::norm.Scalar",
    "aten::norm.ScalarOpt_dtype",
    "aten::norm.ScalarOpt_dim",
    "aten::norm.ScalarOpt_dim_dtype",
    "aten::linalg_vector_norm",
    "aten::sum",
    "aten::sum.dim_IntList",
    "aten::mean",
    "aten::mean.dim",
    "aten::any",
    "aten::any.dim",
    "aten::any.dims",
    "aten::all",
    "aten::all.dim",
    "aten::all.dims",
};

}  // namespace

std::span<const std::string_view> MovesOfComplexNumbers() { return kNames; }

}  // namespace tensord::compiler
