// SPDX-License-Identifier: Apache-2.0
// The C interface: nothing but checks of what callers pass and the end of every exception.
#include <exception>
#include <new>
#include <string>

#include "base/version.h"
#include "runtime/base/error.h"
#include "runtime/call/tensors.h"
#include "runtime/call/workspace.h"
#include "runtime/cuda/cuda_step_clock.h"
#include "runtime/load/load.h"
#include "runtime/operators/externs.h"
#include "runtime/profile/profile.h"
#include "runtime/run/run.h"
#include "tensord/runtime.h"

#define TENSORD_EXPORT __attribute__((visibility("default")))

namespace tensord::runtime {
namespace {

// Memory is the one thing that may run out by an exception.
template <typename Body>
int Guarded(const Body& body) noexcept {
  try {
    return body();
  } catch (const std::exception& error) {
    return Fail(TENSORD_UNAVAILABLE, error.what());
  }
}

TensordError LoadProgram(const void* artifact, size_t size, const char* blob_folder,
                         TensordProgram** program) {
  if (artifact == nullptr || program == nullptr || blob_folder == nullptr) {
    return Fail(TENSORD_INVALID, "an argument of tensord_program_load is null");
  }
  *program = nullptr;
  v1::Artifact message;
  if (size > INT32_MAX || !message.ParseFromArray(artifact, static_cast<int>(size))) {
    return Fail(TENSORD_CORRUPT, "the artifact cannot be parsed");
  }
  auto loaded = std::make_unique<TensordProgram>();
  TENSORD_TRY(BuildPlan(message, loaded.get()));
  TENSORD_TRY(Link(message, blob_folder, loaded.get()));
  *program = loaded.release();
  return TENSORD_OK;
}

}  // namespace
}  // namespace tensord::runtime

extern "C" {

TENSORD_EXPORT uint32_t tensord_runtime_abi(void) { return TENSORD_RUNTIME_ABI; }
TENSORD_EXPORT const char* tensord_runtime_version(void) { return tensord::Version(); }
TENSORD_EXPORT const char* tensord_last_error(void) {
  return tensord::runtime::LastError().c_str();
}
TENSORD_EXPORT void tensord_set_error(const char* message) {
  tensord::runtime::SetLastError(message != nullptr ? message : "");
}
TENSORD_EXPORT void tensord_set_operator_caller(TensordOperatorFn fn, void* context) {
  tensord::runtime::SetOperatorCaller(fn, context);
}
TENSORD_EXPORT void tensord_set_cuda_empty(TensordEmptyFn fn) {
  tensord::runtime::SetCudaEmpty(fn);
}

TENSORD_EXPORT int tensord_program_load(const void* artifact, size_t size, const char* blob_folder,
                                        TensordProgram** program) {
  return tensord::runtime::Guarded(
      [&] { return tensord::runtime::LoadProgram(artifact, size, blob_folder, program); });
}

TENSORD_EXPORT void tensord_program_release(TensordProgram* program) { delete program; }

TENSORD_EXPORT size_t tensord_program_num_inputs(const TensordProgram* program) {
  return program->inputs.size();
}
TENSORD_EXPORT size_t tensord_program_num_outputs(const TensordProgram* program) {
  return program->outputs.size();
}

TENSORD_EXPORT size_t tensord_program_released_inputs(const TensordProgram* program,
                                                      const uint32_t** inputs) {
  *inputs = program->released_inputs.data();
  return program->released_inputs.size();
}

TENSORD_EXPORT int tensord_program_workspace(const TensordProgram* program,
                                             const TensordValue* inputs, size_t num_inputs,
                                             int64_t* whole, int64_t* least) {
  using tensord::runtime::Fail;
  return tensord::runtime::Guarded([&]() -> TensordError {
    if (num_inputs != program->inputs.size()) {
      return Fail(TENSORD_INVALID, "the program takes " + std::to_string(program->inputs.size()) +
                                       " inputs, not " + std::to_string(num_inputs));
    }
    return tensord::runtime::WorkspaceOf(*program, inputs, whole, least);
  });
}
TENSORD_EXPORT void tensord_lend_workspace(TensordTensor tensor, int64_t bytes) {
  tensord::runtime::LendWorkspace(tensor, bytes);
}

TENSORD_EXPORT int tensord_program_run(TensordProgram* program, TensordValue* inputs,
                                       size_t num_inputs, TensordValue* outputs,
                                       size_t num_outputs) {
  using tensord::runtime::Fail;
  return tensord::runtime::Guarded([&]() -> TensordError {
    if (num_inputs != program->inputs.size() || num_outputs != program->outputs.size()) {
      return Fail(TENSORD_INVALID, "the program takes " + std::to_string(program->inputs.size()) +
                                       " inputs and gives " +
                                       std::to_string(program->outputs.size()) + " outputs, not " +
                                       std::to_string(num_inputs) + " and " +
                                       std::to_string(num_outputs));
    }
    return tensord::runtime::Run(*program, inputs, outputs);
  });
}

TENSORD_EXPORT uint64_t tensord_program_number(const TensordProgram* program) {
  return program->number;
}
TENSORD_EXPORT int tensord_profile_begin(void) {
  return tensord::runtime::Guarded([] { return tensord::runtime::BeginProfile(); });
}
TENSORD_EXPORT int tensord_profile_take(const TensordRunTimes** runs, size_t* count,
                                        uint64_t* dropped) {
  return tensord::runtime::Guarded(
      [&] { return tensord::runtime::TakeProfile(runs, count, dropped); });
}
TENSORD_EXPORT size_t tensord_profile_kept(void) { return tensord::runtime::KeptSteps(); }
TENSORD_EXPORT void tensord_profile_end(void) {
  if (tensord::runtime::EndProfile()) tensord::runtime::DestroyIdleEvents();
}

}  // extern "C"
