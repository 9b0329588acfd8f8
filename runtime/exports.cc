// SPDX-License-Identifier: Apache-2.0
// The shared library is tensord_runtime_core whole; this file only anchors its ABI number.
#include "tensord/runtime.h"

static_assert(TENSORD_RUNTIME_ABI == 9, "raise it together with every bridge");
