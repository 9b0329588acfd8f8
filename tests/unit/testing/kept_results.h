// SPDX-License-Identifier: Apache-2.0
// What compilers gave in earlier runs of the tests: a cache as ccache is one, for what it cannot
// see.
#ifndef TENSORD_TESTS_UNIT_TESTING_KEPT_RESULTS_H_
#define TENSORD_TESTS_UNIT_TESTING_KEPT_RESULTS_H_

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "base/sha256.h"

namespace tensord::testing {

// Texts by the digest of all that decides them, as files of `$TENSORD_TEST_CACHE/KIND`. Without
// that variable nothing is found, and nothing kept. Processes may share the folder. tests/run.sh
// sets it, and removes what was not used for long.
class KeptResults {
 public:
  explicit KeptResults(const std::string& kind) {
    const char* const cache = std::getenv("TENSORD_TEST_CACHE");
    if (cache == nullptr || *cache == '\0') return;
    folder_ = std::filesystem::path(cache) / kind;
    std::error_code ignored;  // a folder that cannot be made keeps nothing
    std::filesystem::create_directories(folder_, ignored);
  }

  // digest: as Sha256 gives it.
  std::optional<std::string> Find(const std::string& digest) const {
    if (folder_.empty()) return std::nullopt;
    const std::filesystem::path path = folder_ / ToHex(digest);
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;
    std::ostringstream text;
    text << file.rdbuf();
    std::error_code ignored;  // the time of the last use
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now(), ignored);
    return text.str();
  }

  void Keep(const std::string& digest, const std::string& text) const {
    if (folder_.empty()) return;
    const std::filesystem::path path = folder_ / ToHex(digest),
                                aside = path.string() + "." + std::to_string(getpid());
    std::error_code error;
    if (std::ofstream(aside, std::ios::binary) << text) {
      std::filesystem::rename(aside, path, error);
    } else {
      std::filesystem::remove(aside, error);
    }
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_KEPT_RESULTS_H_
