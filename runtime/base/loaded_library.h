// SPDX-License-Identifier: Apache-2.0
// Libraries that the process has loaded already: torch's own and those that it brings.
#ifndef TENSORD_RUNTIME_BASE_LOADED_LIBRARY_H_
#define TENSORD_RUNTIME_BASE_LOADED_LIBRARY_H_

namespace tensord::runtime {

// A handle for dlsym of the first loaded library whose file name starts with `name`; null (which
// dlsym takes for the whole process) where there is none. Python loads torch's libraries
// RTLD_LOCAL, so that a look-up in the whole process does not see them.
void* FindLoadedLibrary(const char* name);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_BASE_LOADED_LIBRARY_H_
