// SPDX-License-Identifier: Apache-2.0
#include "base/private_file.h"

#include <absl/strings/str_cat.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace tensord {

absl::Status CheckPrivateFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  if ((info.st_mode & 027) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " may be written by its group or read by others: chmod 600 it"));
  }
  return absl::OkStatus();
}

}  // namespace tensord
