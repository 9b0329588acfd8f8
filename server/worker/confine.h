// SPDX-License-Identifier: Apache-2.0
// The walls around a worker and the compilers that it runs: what a graph or a source may make them
// do stays within. By the kernel's own means, which need no privileges; what a kernel lacks is
// said, and the rest holds.
#ifndef TENSORD_SERVER_WORKER_CONFINE_H_
#define TENSORD_SERVER_WORKER_CONFINE_H_

#include <string>
#include <vector>

namespace tensord::server {

// Files and folders, absolute, with all that is below them; those that do not exist are left out.
struct Walls {
  std::vector<std::string> readable;  // and what may be executed
  std::vector<std::string> writable;
};

struct Confinement {
  std::vector<std::string> in_force;
  std::vector<std::string> missing;  // with the reason
};

// Confines this process and its children, for good: files by Landlock, system calls that compiling
// does not need (the network among them) by seccomp, and no capabilities. Call it before there are
// threads.
Confinement Confine(const Walls& walls);

// "files, system calls", and what is missing.
std::string Describe(const Confinement& confinement);

// What a worker needs: the system's programs and libraries, those beside it, the compiler `cxx` (a
// name or a path) with its installation, NVRTC's library or folder, and `work_folders` to write in.
Walls WallsFor(const std::string& cxx, const std::string& nvrtc,
               const std::vector<std::string>& work_folders);

// Confines a worker, unless its compiler fails within the walls and works without them, which is
// tried in children: kernels matter more. That it works within is remembered in the first of
// `work_folders`. Temporary files go there from now on.
Confinement ConfineWorker(const std::string& cxx, const std::string& nvrtc,
                          const std::vector<std::string>& work_folders);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_WORKER_CONFINE_H_
