// SPDX-License-Identifier: Apache-2.0
// What differs between kinds of device: how launches are checked, linked and made, and what a call
// needs around its steps. One object per program; cpu/ and cuda/ make them.
#ifndef TENSORD_RUNTIME_PROGRAM_DEVICE_H_
#define TENSORD_RUNTIME_PROGRAM_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/error.h"
#include "runtime/program/step_clock.h"
#include "tensord/v1/artifact.pb.h"

struct TensordProgram;

namespace tensord::runtime {

struct CallState;

class Device {
 public:
  virtual ~Device() = default;

  // At load. Checks and lays out the part of the next launch that is this device's own; the
  // launch's buffers and integers are in `program.launches.back()`. TENSORD_CORRUPT says what is
  // wrong.
  virtual TensordError AddLaunch(const v1::KernelLaunch& proto, v1::Module::Kind module,
                                 TensordProgram& program) = 0;
  // Opens and checks the modules' blobs, once the program has torch.
  virtual TensordError Link(const v1::Artifact& artifact, const std::string& blob_folder,
                            TensordProgram& program) = 0;

  // In a call, between the binding of the inputs and that of the buffers: makes all ready that the
  // steps need, so that what can go wrong before the first step does. End follows whenever Begin
  // was called, on success and on failure.
  virtual TensordError Begin(CallState& state) = 0;
  virtual TensordError Launch(CallState& state, uint32_t number) = 0;
  // Fills memory with zeros, in the order of the steps.
  virtual TensordError ZeroFill(CallState& state, char* memory, size_t bytes) = 0;
  // Whether the device has a better way than torch's operator for call `number` of the program.
  virtual bool Takes(uint32_t) const { return false; }
  // Runs a call that it takes. False: nothing was done, and torch's operator is to run.
  virtual bool Call(CallState&, uint32_t) { return false; }
  virtual void End(CallState& state) = 0;

  // Times the steps of a profiled call, between Begin and End. Null: this call cannot be timed.
  virtual std::unique_ptr<StepClock> NewStepClock(CallState& state) = 0;

  // What an allocation means that failed without a word from torch: OUT_OF_MEMORY or OPERATOR.
  virtual TensordError AllocationError(const CallState& state) const = 0;
};

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_PROGRAM_DEVICE_H_
