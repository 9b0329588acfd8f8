// SPDX-License-Identifier: Apache-2.0
// What the compiler throws, as a status.
#ifndef TENSORD_SERVER_WORKER_THROWN_H_
#define TENSORD_SERVER_WORKER_THROWN_H_

#include <exception>
#include <new>
#include <string>

#include "base/status.h"

namespace tensord::server {

inline constexpr char kOutOfMemory[] = "tensord.out_of_memory";
// Of an Internal status: there was no more memory to have.
inline bool IsOutOfMemory(const absl::Status& status) {
  return status.GetPayload(kOutOfMemory).has_value();
}

// Runs `work`. Internal where it throws: only libraries do, for want of memory above all.
template <class Work>
absl::Status StatusOfThrown(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    absl::Status status =
        absl::InternalError("the compiler ran out of memory (job_memory sets the limit)");
    status.SetPayload(kOutOfMemory, absl::Cord());
    return status;
  } catch (const std::exception& error) {
    return absl::InternalError(std::string("the compiler threw: ") + error.what());
  }
}

}  // namespace tensord::server

#endif  // TENSORD_SERVER_WORKER_THROWN_H_
