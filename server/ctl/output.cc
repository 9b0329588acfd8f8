// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace tensord::server {

int WriteText(const std::string& file, const std::string& text) {
  if (file.empty()) return Print(text), kExitOk;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (out) return kExitOk;
  std::fprintf(stderr, "tensorctl: %s cannot be written: %s\n", file.c_str(), strerror(errno));
  return kExitError;
}

int Fail(const absl::Status& status, int code) {
  std::fprintf(stderr, "tensorctl: %s\n", std::string(status.message()).c_str());
  return code;
}

}  // namespace tensord::server
