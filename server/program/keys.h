// SPDX-License-Identifier: Apache-2.0
// What identifies a compiled program and a compiled kernel. Both are named structs with a version;
// a test holds every field of the graph against the program key, so that a new field is never
// forgotten.
//
// Never in a key: names and source lines of nodes, the label, the caller, a device index, a rank, a
// host name, a path.
#ifndef TENSORD_SERVER_PROGRAM_KEYS_H_
#define TENSORD_SERVER_PROGRAM_KEYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/version.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::server {

struct ProgramKey {
  std::string graph;           // CanonicalGraph
  std::string target;          // serialised Target, as sent: tile sizes depend on its caches
  std::string options;         // serialised CompileOptions
  std::string toolchain;       // id of jit::ToolchainInfo
  std::string compiler_build;  // digest of the worker binary, which holds the compiler
  uint32_t compiler_version = kCompilerVersion;
  uint32_t artifact_format = kArtifactFormat;

  std::string Digest() const;  // 32 bytes
};

struct KernelKey {
  std::string source;
  std::vector<std::string> functions;
  std::string arch;       // ArchOf(target): what a kernel's binary depends on
  std::string toolchain;  // id of jit::ToolchainInfo

  std::string Digest() const;  // 32 bytes
};

// The graph's bytes without what is for people. Equal for graphs that compile to the same program.
std::string CanonicalGraph(const v1::Graph& graph);

// "cpu avx2", "cuda sm90": for kernel keys, lists and logs.
std::string ArchOf(const v1::Target& target);

ProgramKey MakeProgramKey(const v1::Graph& graph, const v1::Target& target,
                          const v1::CompileOptions& options, std::string toolchain,
                          std::string compiler_build);
KernelKey MakeKernelKey(const v1::KernelUnit& unit, const v1::Target& target,
                        std::string toolchain);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_PROGRAM_KEYS_H_
