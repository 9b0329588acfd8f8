// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/loaded_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string>

namespace tensord::runtime {

void* FindLoadedLibrary(const char* name) {
  struct Search {
    const char* name;
    std::string path;
  } search{name, ""};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        auto* wanted = static_cast<Search*>(context);
        const char* slash = std::strrchr(info->dlpi_name, '/');
        const char* base = slash != nullptr ? slash + 1 : info->dlpi_name;
        if (std::strncmp(base, wanted->name, std::strlen(wanted->name)) != 0) return 0;
        wanted->path = info->dlpi_name;
        return 1;
      },
      &search);
  if (search.path.empty()) return nullptr;
  return dlopen(search.path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
}

}  // namespace tensord::runtime
