// SPDX-License-Identifier: Apache-2.0
// Times steps on a GPU by events on the run's stream, before and behind each step: the host waits
// for none of them until the times are read.
#ifndef TENSORD_RUNTIME_CUDA_CUDA_STEP_CLOCK_H_
#define TENSORD_RUNTIME_CUDA_CUDA_STEP_CLOCK_H_

#include <memory>

#include "runtime/cuda/cuda_driver.h"
#include "runtime/program/step_clock.h"

namespace tensord::runtime {

// For a run on `stream`, in the thread's current context; one that fails where the driver has no
// events. Null: what is queued on the stream goes into a CUDA graph, and is no run.
std::unique_ptr<StepClock> NewCudaStepClock(const CudaDriver& driver, CuStream stream);

// Clocks that were read leave their events to later ones; this ends them.
void DestroyIdleEvents();

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_CUDA_CUDA_STEP_CLOCK_H_
