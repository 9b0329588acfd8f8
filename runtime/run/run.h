// SPDX-License-Identifier: Apache-2.0
// The interpreter of launch plans.
#ifndef TENSORD_RUNTIME_RUN_RUN_H_
#define TENSORD_RUNTIME_RUN_RUN_H_

#include "runtime/base/error.h"
#include "runtime/program/plan.h"

namespace tensord::runtime {

// As tensord_program_run, with the counts checked. On failure no output is set.
TensordError Run(const TensordProgram& program, TensordValue* inputs, TensordValue* outputs);

// As tensord_program_workspace.
TensordError WorkspaceOf(const TensordProgram& program, const TensordValue* inputs, int64_t* whole,
                         int64_t* least);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_RUN_RUN_H_
