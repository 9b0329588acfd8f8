// SPDX-License-Identifier: Apache-2.0
// The kernel of every artifact that is fuzzed.
#include "tensord/kernel_abi.h"

extern "C" __attribute__((visibility("default"))) void nothing(const TensordKernelArgs*) {}
