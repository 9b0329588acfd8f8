// SPDX-License-Identifier: Apache-2.0
// Reductions over dimensions. torch's `dim` of none or of no dimension means all of them.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kReductionsRows[] = {
    {"aten::sum(Tensor self, *, ScalarType? dtype)"},
    {"aten::sum.dim_IntList(Tensor self, int[]? dim, bool keepdim, *, ScalarType? dtype)"},
    {"aten::prod(Tensor self, *, ScalarType? dtype)"},
    {"aten::prod.dim_int(Tensor self, int dim, bool keepdim, *, ScalarType? dtype)"},
    {"aten::nansum(Tensor self, int[]? dim, bool keepdim, *, ScalarType? dtype)"},
    {"aten::mean(Tensor self, *, ScalarType? dtype)"},
    {"aten::mean.dim(Tensor self, int[]? dim, bool keepdim, *, ScalarType? dtype)"},
    {"aten::count_nonzero(Tensor self, int? dim)"},
    {"aten::count_nonzero.dim_IntList(Tensor self, int[] dim)"},
    {"aten::amax(Tensor self, int[] dim, bool keepdim)"},
    {"aten::amin(Tensor self, int[] dim, bool keepdim)"},
    {"aten::max(Tensor self)"},
    {"aten::min(Tensor self)"},
    {"aten::max.dim(Tensor self, int dim, bool keepdim)"},
    {"aten::min.dim(Tensor self, int dim, bool keepdim)"},
    {"aten::aminmax(Tensor self, *, int? dim, bool keepdim)"},
    {"aten::argmax(Tensor self, int? dim, bool keepdim)"},
    {"aten::argmin(Tensor self, int? dim, bool keepdim)"},
    {"aten::any(Tensor self)"},
    {"aten::any.dim(Tensor self, int dim, bool keepdim)"},
    {"aten::any.dims(Tensor self, int[]? dim, bool keepdim)"},
    {"aten::all(Tensor self)"},
    {"aten::all.dim(Tensor self, int dim, bool keepdim)"},
    {"aten::all.dims(Tensor self, int[]? dim, bool keepdim)"},
    {"aten::var(Tensor self, bool unbiased)"},
    {"aten::var.dim(Tensor self, int[]? dim, bool unbiased, bool keepdim)"},
    {"aten::var.correction(Tensor self, int[]? dim, *, Scalar? correction, bool keepdim)"},
    {"aten::var_mean(Tensor self, bool unbiased)"},
    {"aten::var_mean.dim(Tensor self, int[]? dim, bool unbiased, bool keepdim)"},
    {"aten::var_mean.correction(Tensor self, int[]? dim, *, Scalar? correction, bool keepdim)"},
    {"aten::std(Tensor self, bool unbiased)"},
    {"aten::std.dim(Tensor self, int[]? dim, bool unbiased, bool keepdim)"},
    {"aten::std.correction(Tensor self, int[]? dim, *, Scalar? correction, bool keepdim)"},
    {"aten::std_mean(Tensor self, bool unbiased)"},
    {"aten::std_mean.dim(Tensor self, int[]? dim, bool unbiased, bool keepdim)"},
    {"aten::std_mean.correction(Tensor self, int[]? dim, *, Scalar? correction, bool keepdim)"},
    {"aten::norm.Scalar(Tensor self, Scalar p)"},
    {"aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype)"},
    {"aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[] dim, bool keepdim)"},
    {"aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[] dim, bool keepdim, *, "
     "ScalarType dtype)"},
    {"aten::linalg_vector_norm(Tensor self, Scalar ord, int[]? dim, bool keepdim, *, ScalarType? "
     "dtype)"},
    {"aten::_foreach_norm.Scalar(Tensor[] self, Scalar ord, ScalarType? dtype)"},
    {"aten::logsumexp(Tensor self, int[] dim, bool keepdim)"},
};

}  // namespace

OperatorTable ReductionTable() { return {OperatorKind::kReduction, kReductionsRows}; }

}  // namespace tensord::compiler
