// SPDX-License-Identifier: Apache-2.0
// What scores are multiplied by last: the scale of products, or a cap. The exponential behind them
// multiplies anyway, by log2 e, so that the kernel does both at once.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_ATTENTION_FACTOR_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_ATTENTION_FACTOR_H_

#include <vector>

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

// Takes a multiplication by one positive constant from the end of all functions of scores, and
// returns the constant; scores that are not seen stay -inf. 1, and functions as they were, where
// they do not all end so. Instructions keep their numbers.
float TakeFactor(std::vector<LoopOp>* functions);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_ATTENTION_FACTOR_H_
