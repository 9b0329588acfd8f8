// SPDX-License-Identifier: Apache-2.0
// A request as it came over the wire, which is how it waits: a parsed graph takes ten times the
// memory, and the worker wants bytes.
#ifndef TENSORD_SERVER_COMPILE_REQUEST_BYTES_H_
#define TENSORD_SERVER_COMPILE_REQUEST_BYTES_H_

#include <string>

#include "base/status.h"

namespace tensord::server {

// Makes a serialised CompileRequest the CompileJob of its graph, target and options, in place.
// InvalidArgument: it is not a message.
absl::Status MakeJob(std::string* request);

// What stands before the bytes of a CompileJob of `size` bytes to make a WorkerRequest of them.
std::string WorkerRequestHead(size_t size);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_REQUEST_BYTES_H_
