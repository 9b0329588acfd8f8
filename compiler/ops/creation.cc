// SPDX-License-Identifier: Apache-2.0
// Tensors of numbers that no operand gives, or of one that is spread.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kCreationRows[] = {
    {"aten::full(int[] size, Scalar fill_value, *, ScalarType? dtype, Layout? layout, Device? "
     "device, bool? pin_memory)"},
    {"aten::zeros(int[] size, *, ScalarType? dtype, Layout? layout, Device? device, bool? "
     "pin_memory)"},
    {"aten::ones(int[] size, *, ScalarType? dtype, Layout? layout, Device? device, bool? "
     "pin_memory)"},
    {"aten::empty.memory_format(int[] size, *, ScalarType? dtype, Layout? layout, Device? device, "
     "bool? pin_memory, MemoryFormat? memory_format)"},
    {"aten::empty_strided(int[] size, int[] stride, *, ScalarType? dtype, Layout? layout, Device? "
     "device, bool? pin_memory)"},
    {"aten::empty_permuted(int[] size, int[] physical_layout, *, ScalarType? dtype, Layout? "
     "layout, Device? device, bool? pin_memory)"},
    {"aten::full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype, Layout? layout, "
     "Device? device, bool? pin_memory, MemoryFormat? memory_format)"},
    {"aten::zeros_like(Tensor self, *, ScalarType? dtype, Layout? layout, Device? device, bool? "
     "pin_memory, MemoryFormat? memory_format)"},
    {"aten::ones_like(Tensor self, *, ScalarType? dtype, Layout? layout, Device? device, bool? "
     "pin_memory, MemoryFormat? memory_format)"},
    {"aten::empty_like(Tensor self, *, ScalarType? dtype, Layout? layout, Device? device, bool? "
     "pin_memory, MemoryFormat? memory_format)"},
    {"aten::new_full(Tensor self, int[] size, Scalar fill_value, *, ScalarType? dtype, Layout? "
     "layout, Device? device, bool? pin_memory)"},
    {"aten::new_zeros(Tensor self, int[] size, *, ScalarType? dtype, Layout? layout, Device? "
     "device, bool? pin_memory)"},
    {"aten::new_ones(Tensor self, int[] size, *, ScalarType? dtype, Layout? layout, Device? "
     "device, bool? pin_memory)"},
    {"aten::new_empty(Tensor self, int[] size, *, ScalarType? dtype, Layout? layout, Device? "
     "device, bool? pin_memory)"},
    {"aten::new_empty_strided(Tensor self, int[] size, int[] stride, *, ScalarType? dtype, Layout? "
     "layout, Device? device, bool? pin_memory)"},
    {"aten::fill.Scalar(Tensor self, Scalar value)"},
    {"aten::fill.Tensor(Tensor self, Tensor value)"},
    {"aten::zero(Tensor self)"},
    {"aten::scalar_tensor(Scalar s, *, ScalarType? dtype, Layout? layout, Device? device, bool? "
     "pin_memory)"},
    {"aten::arange(Scalar end, *, ScalarType? dtype, Layout? layout, Device? device, bool? "
     "pin_memory)"},
    {"aten::arange.start(Scalar start, Scalar end, *, ScalarType? dtype, Layout? layout, Device? "
     "device, bool? pin_memory)"},
    {"aten::arange.start_step(Scalar start, Scalar end, Scalar step, *, ScalarType? dtype, Layout? "
     "layout, Device? device, bool? pin_memory)"},
    {"prims::iota(int length, *, int start, int step, ScalarType dtype, Device device, bool "
     "requires_grad)"},
    {"aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype, Layout? layout, "
     "Device? device, bool? pin_memory)"},
    {"aten::eye(int n, *, ScalarType? dtype, Layout? layout, Device? device, bool? pin_memory)"},
    {"aten::eye.m(int n, int m, *, ScalarType? dtype, Layout? layout, Device? device, bool? "
     "pin_memory)"},
    {"aten::tril(Tensor self, int diagonal)"},
    {"aten::triu(Tensor self, int diagonal)"},
};

}  // namespace

OperatorTable CreationTable() { return {OperatorKind::kCreation, kCreationRows}; }

}  // namespace tensord::compiler
