// SPDX-License-Identifier: Apache-2.0
// A kernel's binary as an artifact names it.
#ifndef TENSORD_SERVER_PROGRAM_MADE_MODULE_H_
#define TENSORD_SERVER_PROGRAM_MADE_MODULE_H_

#include "tensord/v1/worker.pb.h"

namespace tensord::server {

// What a module says of the binary that the JIT made of a unit, besides digest, size and kernel
// key.
v1::Module MadeModule(const v1::JitResult& result, int unit);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_PROGRAM_MADE_MODULE_H_
