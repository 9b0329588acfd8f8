// SPDX-License-Identifier: Apache-2.0
// tensord-worker: one compiler process of the daemon, what `tensorctl compile --dump` runs, and an
// action of a build farm.
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/version.h"
#include "compiler/compile.h"
#include "compiler/jit/jit.h"
#include "server/worker/action.h"
#include "server/worker/compile_file.h"
#include "server/worker/confine.h"
#include "server/worker/framing.h"
#include "server/worker/worker_loop.h"

namespace server = tensord::server;

namespace {

// What is found goes to standard output, why nothing is to standard error. Returns the exit code.
int PrintToolchain(const std::string& name, const tensord::jit::JitConfig& jit) {
  const auto target = server::ParseTarget(name);
  const auto found = target.ok() ? tensord::jit::FindToolchain(*target, jit)
                                 : absl::StatusOr<tensord::jit::ToolchainInfo>(target.status());
  if (found.ok()) {
    std::printf("%s\n", found->id.c_str());
    return 0;
  }
  std::fprintf(stderr, "tensord-worker: %s\n", std::string(found.status().message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A compiler process of tensord, which starts it.", "tensord-worker");
  tensord::jit::JitConfig jit;
  unsigned cpu_seconds = 0;
  app.set_version_flag("--version", tensord::Version());
  app.add_option("--cxx", jit.cxx, "the host's C++ compiler");
  app.add_option("--flag", jit.extra_flags, "appended to the C++ compiler's flags");
  app.add_option("--nvrtc", jit.nvrtc, "NVRTC's library or its folder");
  app.add_option("--work-folder", jit.work_folder, "for preludes and temporary files");
  app.add_option("--spare-folder", jit.spare_folder, "instead of it while its disk is full");
  app.add_option("--parallelism", jit.parallelism, "units compiled at once");
  app.add_option("--cpu-seconds", cpu_seconds, "CPU time of one job");
  bool confine = true;
  app.add_option("--confine", confine,
                 "keep files, system calls and capabilities to what is needed");
  server::CompileFileOptions compile;
  app.add_option("--compile", compile.file, "compile this graph, print what passes make, and exit");
  app.add_option("--dump-after", compile.dump_after, "with --compile: of this pass, or of all");
  app.add_option("--target", compile.target, "with --compile: scalar, avx2, avx512 or sm_NN");
  std::vector<std::string> action;
  app.add_option("--action", action,
                 "compile the job in the file IN, put program and kernels into the folder OUT, and "
                 "exit")
      ->expected(2)
      ->type_name("IN OUT");
  std::string toolchain;
  app.add_option("--toolchain", toolchain,
                 "print what decides binaries for this target (as --target) besides their sources, "
                 "and exit");
  app.add_option("--seal-key", jit.seal_key, "of what the work folder keeps (seal.h)")
      ->envname("TENSORD_SEAL_KEY");
  CLI11_PARSE(app, argc, argv);
  unsetenv("TENSORD_SEAL_KEY");  // not the compilers'
  if (!compile.file.empty()) return server::CompileFile(compile);
  if (!action.empty()) return server::RunAction({action[0], action[1]}, jit);
  if (!toolchain.empty()) return PrintToolchain(toolchain, jit);

  int type = 0;
  socklen_t size = sizeof type;
  if (getsockopt(server::kWorkerFd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    std::fprintf(stderr, "tensord-worker is started by tensord\n");
    return 2;
  }
  server::Confinement confinement = {{}, {"everything (confine = off)"}};
  if (confine) {
    std::vector<std::string> folders = {jit.work_folder};
    if (!jit.spare_folder.empty()) folders.push_back(jit.spare_folder);
    // The first is where the compiler is tried.
    if (tensord::jit::WorkFolder(jit) != jit.work_folder) std::swap(folders[0], folders[1]);
    confinement = server::ConfineWorker(jit.cxx, jit.nvrtc, folders);
  }
  server::WorkerHandlers handlers;
  handlers.compile = [](const tensord::v1::CompileJob& job) {
    return tensord::compiler::Compile(job);
  };
  handlers.jit = [&jit](const tensord::v1::JitJob& job, const tensord::jit::OnUnit& on_unit) {
    return tensord::jit::Jit(job, jit, on_unit);
  };
  handlers.toolchain =
      [&jit](const tensord::v1::Target& target) -> absl::StatusOr<tensord::v1::ToolchainReply> {
    TENSORD_ASSIGN_OR_RETURN(const tensord::jit::ToolchainInfo info,
                             tensord::jit::FindToolchain(target, jit));
    tensord::v1::ToolchainReply reply;
    reply.set_id(info.id);
    reply.set_file(info.file);
    return reply;
  };
  handlers.toolchain_list = [&jit, &confinement] {
    tensord::v1::ToolchainList list = tensord::jit::ListToolchains(jit);
    tensord::v1::ToolchainState& walls = *list.add_toolchains();
    walls.set_name("workers' walls");
    walls.set_found(server::Describe(confinement));
    return list;
  };
  handlers.operators = [] { return tensord::compiler::LoweredOperators(); };
  return server::RunWorkerLoop(handlers, cpu_seconds);
}
