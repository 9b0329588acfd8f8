// SPDX-License-Identifier: Apache-2.0
#include "server/config/service_options.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/sha256.h"

namespace tensord::server {
namespace {

int DefaultWorkers() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
}

}  // namespace

std::string WorkFolder(const store::Store& store) { return store.root() + "/jit"; }

ServiceOptions MakeServiceOptions(const Config& config, store::Store& store,
                                  const std::string& spare_folder) {
  ServiceOptions options;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.pool.workers = config.workers == 0 ? DefaultWorkers() : static_cast<int>(config.workers);
  options.pool.idle = absl::Seconds(config.worker_idle);
  options.pool.job_limit = absl::Seconds(config.job_seconds);
  // One request alone keeps every core busy, also one that may not have all workers.
  const int places = PlacesFor(Cost::kExpensive, options.pool.workers);
  options.units_per_job = (cores + places - 1) / places;
  options.cxx = config.cxx;
  options.jit_settings = absl::StrCat(config.cxx_flags, "\n", config.nvrtc);
  options.max_waiting = config.max_waiting;
  options.queue_limit = absl::Seconds(config.queue_seconds);
  options.request_memory = config.request_memory;

  WorkerCommand& command = options.pool.command;
  command.path = config.worker;
  command.memory_bytes = config.job_memory;
  command.environment = {"TENSORD_SEAL_KEY=" + ToHex(store.DeriveKey("work folder"))};
  command.args = {"--cxx", config.cxx, "--work-folder", WorkFolder(store), "--parallelism",
                  absl::StrCat(options.units_per_job), "--cpu-seconds",
                  // CPU time is the sum over threads.
                  absl::StrCat(config.job_seconds * static_cast<uint64_t>(options.units_per_job))};
  if (!spare_folder.empty()) command.args.push_back("--spare-folder=" + spare_folder);
  for (const std::string& flag :
       std::vector<std::string>(absl::StrSplit(config.cxx_flags, ' ', absl::SkipEmpty()))) {
    command.args.push_back("--flag=" + flag);
  }
  if (!config.nvrtc.empty()) command.args.push_back("--nvrtc=" + config.nvrtc);
  command.args.push_back(config.confine == "off" ? "--confine=false" : "--confine=true");
  return options;
}

}  // namespace tensord::server
