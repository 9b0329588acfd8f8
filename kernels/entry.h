// SPDX-License-Identifier: Apache-2.0
// What a generated CPU kernel includes: #include "tensord/cpu.h".
#include "tensord/cpu/checked.h"
#include "tensord/cpu/cpu.h"
#include "tensord/cpu/index.h"
#include "tensord/kernel_abi.h"
