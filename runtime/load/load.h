// SPDX-License-Identifier: Apache-2.0
// From the stored artifact to a TensordProgram: everything that the interpreter relies on is
// checked here, so that a damaged artifact is an error and never a crash.
#ifndef TENSORD_RUNTIME_LOAD_LOAD_H_
#define TENSORD_RUNTIME_LOAD_LOAD_H_

#include <string>

#include "runtime/base/error.h"
#include "runtime/program/plan.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::runtime {

// Checks `artifact` and fills the plan, with neither torch nor the modules' code: launches have no
// function yet and constants no tensor. TENSORD_CORRUPT names what is wrong.
TensordError BuildPlan(const v1::Artifact& artifact, TensordProgram* program);

// Ensures for the steps (part of BuildPlan): indices in range; a buffer is written before it is
// read, never used after it was freed, and never written when it is a constant; launches' integers
// and calls' arguments are laid out; owned buffers are allocated before their first use; outputs
// have storage of their own.
TensordError BuildSteps(const v1::Artifact& artifact, TensordProgram* program);

// Loads the modules, finds the functions and makes the constants' tensors.
TensordError Link(const v1::Artifact& artifact, const std::string& blob_folder,
                  TensordProgram* program);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_LOAD_LOAD_H_
