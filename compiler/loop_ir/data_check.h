// SPDX-License-Identifier: Apache-2.0
// What eager refuses of data: numbers that a kernel looks at as it runs.
#ifndef TENSORD_COMPILER_LOOP_IR_DATA_CHECK_H_
#define TENSORD_COMPILER_LOOP_IR_DATA_CHECK_H_

#include <cstdint>

namespace tensord::compiler {

// What a number must be where the guard holds, else the run fails: on a CPU the call, with eager's
// words (runtime/cpu/cpu_device.cc), on CUDA an assertion of the device.
enum class DataCheck : uint8_t {
  kDivisor,            // not 0
  kProbability,        // in [0, 1]: what a loss predicts
  kTargetProbability,  // in [0, 1]: what it should be
  kDrawnProbability,   // in [0, 1]: that of a random number
  kDeviation,          // at least 0: the standard deviation of random numbers
};

struct DataCheckInfo {
  const char* name;           // in the text of a block
  const char* cpu_function;   // of the prelude: checks a vector and gives it
  const char* cuda_function;  // empty: none, for eager does not check it there, or waits for it
};

const DataCheckInfo& InfoOf(DataCheck check);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_LOOP_IR_DATA_CHECK_H_
