// SPDX-License-Identifier: Apache-2.0
#ifndef TENSORD_TESTS_FUZZ_TARGETS_FOLDER_H_
#define TENSORD_TESTS_FUZZ_TARGETS_FOLDER_H_

#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "base/check.h"

namespace tensord::fuzz {

// A folder for a target's files, in memory where there is such a place: it is written at each run.
inline std::string MakeFolder() {
  std::string path = access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : "/tmp/";
  path += "tensord-fuzz.XXXXXX";
  TENSORD_CHECK(mkdtemp(path.data()) != nullptr, path);
  return path;
}

}  // namespace tensord::fuzz

#endif  // TENSORD_TESTS_FUZZ_TARGETS_FOLDER_H_
