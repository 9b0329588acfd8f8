// SPDX-License-Identifier: Apache-2.0
// Processes that say something of themselves, as they are kept with it.
#ifndef TENSORD_SERVER_TRACES_CALLERS_H_
#define TENSORD_SERVER_TRACES_CALLERS_H_

#include <cstddef>
#include <string>

#include "tensord/v1/requests.pb.h"

namespace tensord::server {

// A longer name of a job, a host or a bridge is none.
inline constexpr size_t kLongestCaller = 256;

// Without names that are too long to be kept.
inline v1::Caller KeptCaller(v1::Caller caller) {
  for (std::string* name : {caller.mutable_job(), caller.mutable_host(), caller.mutable_bridge()}) {
    if (name->size() > kLongestCaller) std::string().swap(*name);  // and its memory
  }
  return caller;
}

inline bool IsSameProcess(const v1::Caller& one, const v1::Caller& other) {
  return one.pid() == other.pid() && one.host() == other.host() && one.job() == other.job();
}

}  // namespace tensord::server

#endif  // TENSORD_SERVER_TRACES_CALLERS_H_
