// SPDX-License-Identifier: Apache-2.0
// Random numbers.
#include "compiler/ops/tables.h"

namespace tensord::compiler {
namespace {

constexpr OperatorRow kRandomRows[] = {
    // Counter-based: functions of their arguments alone
    {"tensord::philox_uniform(Tensor seed, int[] size, ScalarType dtype, Device device, int "
     "stream)"},
    {"tensord::philox_normal(Tensor seed, int[] size, ScalarType dtype, Device device, int "
     "stream)"},
    // What they are drawn by, checked
    {"tensord::checked_probability(Tensor x)"},
    {"tensord::checked_deviation(Tensor x)"},
    // Drawn from the state of torch's generator
    {"tensord::seed(Device? device)", kByLibrary | kDrawsRandomNumbers},
    {"aten::bernoulli(Tensor self, *, Generator? generator)", kByLibrary | kDrawsRandomNumbers},
    {"aten::bernoulli.p(Tensor self, float p, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::cauchy(Tensor self, float median, float sigma, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::exponential(Tensor self, float lambd, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::geometric(Tensor self, float p, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::log_normal(Tensor self, float mean, float std, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::multinomial(Tensor self, int num_samples, bool replacement, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::normal.Tensor_float(Tensor mean, float std, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::normal.float_float(float mean, float std, int[] size, *, Generator? generator, "
     "ScalarType? dtype, Layout? layout, Device? device, bool? pin_memory)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::normal_functional(Tensor self, float mean, float std, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::poisson(Tensor self, Generator? generator)", kByLibrary | kDrawsRandomNumbers},
    {"aten::rand(int[] size, *, ScalarType? dtype, Layout? layout, Device? device, bool? "
     "pin_memory)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::rand.generator(int[] size, *, Generator? generator, ScalarType? dtype, Layout? layout, "
     "Device? device, bool? pin_memory)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::rand_like(Tensor self, *, ScalarType? dtype, Layout? layout, Device? device, bool? "
     "pin_memory, MemoryFormat? memory_format)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::rand_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype, Layout? "
     "layout, Device? device, bool? pin_memory, MemoryFormat? memory_format)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randint(int high, int[] size, *, ScalarType? dtype, Layout? layout, Device? device, "
     "bool? pin_memory)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randint.generator(int high, int[] size, *, Generator? generator, ScalarType? dtype, "
     "Layout? layout, Device? device, bool? pin_memory)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randint.low(int low, int high, int[] size, *, ScalarType? dtype, Layout? layout, "
     "Device? device, bool? pin_memory)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randint.low_generator(int low, int high, int[] size, *, Generator? generator, "
     "ScalarType? dtype, Layout? layout, Device? device, bool? pin_memory)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randint_like(Tensor self, int high, *, ScalarType? dtype, Layout? layout, Device? "
     "device, bool? pin_memory, MemoryFormat? memory_format)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randint_like.Tensor(Tensor self, Tensor high, *, ScalarType? dtype, Layout? layout, "
     "Device? device, bool? pin_memory, MemoryFormat? memory_format)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randint_like.low_dtype(Tensor self, int low, int high, *, ScalarType? dtype, Layout? "
     "layout, Device? device, bool? pin_memory, MemoryFormat? memory_format)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randint_like.generator(Tensor self, int high, *, Generator? generator, ScalarType? "
     "dtype, Layout? layout, Device? device, bool? pin_memory, MemoryFormat? memory_format)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randint_like.Tensor_generator(Tensor self, Tensor high, *, Generator? generator, "
     "ScalarType? dtype, Layout? layout, Device? device, bool? pin_memory, MemoryFormat? "
     "memory_format)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randint_like.low_generator_dtype(Tensor self, int low, int high, *, Generator? "
     "generator, ScalarType? dtype, Layout? layout, Device? device, bool? pin_memory, "
     "MemoryFormat? memory_format)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randn(int[] size, *, ScalarType? dtype, Layout? layout, Device? device, bool? "
     "pin_memory)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randn.generator(int[] size, *, Generator? generator, ScalarType? dtype, Layout? "
     "layout, Device? device, bool? pin_memory)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randn_like(Tensor self, *, ScalarType? dtype, Layout? layout, Device? device, bool? "
     "pin_memory, MemoryFormat? memory_format)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randn_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype, Layout? "
     "layout, Device? device, bool? pin_memory, MemoryFormat? memory_format)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::random.from(Tensor self, int from, int? to, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::random.to(Tensor self, int to, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::random(Tensor self, *, Generator? generator)", kByLibrary | kDrawsRandomNumbers},
    {"aten::randperm(int n, *, ScalarType? dtype, Layout? layout, Device? device, bool? "
     "pin_memory)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::randperm.generator(int n, *, Generator? generator, ScalarType? dtype, Layout? layout, "
     "Device? device, bool? pin_memory)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower, Scalar upper, "
     "bool training, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
    {"aten::uniform(Tensor self, float from, float to, *, Generator? generator)",
     kByLibrary | kDrawsRandomNumbers},
};

}  // namespace

OperatorTable RandomTable() { return {OperatorKind::kRandom, kRandomRows}; }

}  // namespace tensord::compiler
