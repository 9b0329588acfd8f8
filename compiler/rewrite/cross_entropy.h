// SPDX-License-Identifier: Apache-2.0
// The gradient of a cross entropy in one step.
//
// Ensures: log-softmax's backward step over the gradient of a negative log likelihood is one
// operator, `tensord::cross_entropy_backward`. The gradient has one element a row that is not zero,
// so the row's sum that the step needs is that element: no pass over the classes is spent on it.
// Under autocast the loss is computed in float32 of a narrow log-softmax: the gradient's cast back
// goes too.
#ifndef TENSORD_COMPILER_REWRITE_CROSS_ENTROPY_H_
#define TENSORD_COMPILER_REWRITE_CROSS_ENTROPY_H_

#include "compiler/graph/graph.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// The number of steps that were fused.
int CrossEntropy(const v1::Target& target, Graph* graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_REWRITE_CROSS_ENTROPY_H_
