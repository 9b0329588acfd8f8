// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/passes.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

namespace tensord::server {

int PrintPasses(const PassesCommand& command) {
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::string worker = self.parent_path() / "tensord-worker";
  std::vector<std::string> words{worker, "--compile", command.file};
  if (!command.dump_after.empty()) {
    words.insert(words.end(), {"--dump-after", command.dump_after});
  }
  if (!command.target.empty()) words.insert(words.end(), {"--target", command.target});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(worker.c_str(), arguments.data());
  std::fprintf(stderr, "tensorctl: cannot start %s: %s\n", worker.c_str(), std::strerror(errno));
  return 1;
}

}  // namespace tensord::server
