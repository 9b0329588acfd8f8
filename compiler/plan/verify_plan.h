// SPDX-License-Identifier: Apache-2.0
// The launch plan's verifier.
//
// Checks that
//   - every number that the plan names exists: inputs, constants, buffers, modules, symbols of
//     bindings; views end at a buffer that is none;
//   - a launch's function is one of its module's, and what it writes is among its arguments;
//   - every buffer that is read, or given out, is an input, a constant, empty, or was written
//   before;
//   - only buffers of the call's own are freed, each once, and nothing uses one afterwards.
// Expressions are not looked into.
#ifndef TENSORD_COMPILER_PLAN_VERIFY_PLAN_H_
#define TENSORD_COMPILER_PLAN_VERIFY_PLAN_H_

#include "base/status.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::compiler {

// Of the artifact and the units that belong to its modules. Internal, naming the buffer or the
// step.
absl::Status VerifyPlan(const v1::CompileResult& result);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_PLAN_VERIFY_PLAN_H_
