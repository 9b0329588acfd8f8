// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/compile.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"
#include "server/ahead/ahead_compiler.h"
#include "server/ahead/graphs.h"
#include "server/ahead/targets.h"
#include "server/archive/file_sources.h"
#include "server/config/fleet_settings.h"
#include "server/config/service_options.h"
#include "server/ctl/client.h"
#include "server/ctl/numbers.h"
#include "server/ctl/output.h"
#include "server/ctl/passes.h"
#include "server/ctl/store.h"
#include "server/fleet/open.h"
#include "tensord/v1/stats.pb.h"

namespace tensord::server {
namespace {

// Of a key, for people.
// For the tier to take what is left, which it does at its own pace.
constexpr absl::Duration kFlush = absl::Minutes(10);

// Prints each result as it comes, or all of them at the end for programs.
class Reporter {
 public:
  explicit Reporter(bool json) : json_(json) {}

  void Add(const AheadResult& result) {
    if (json_) return results_.push_back(ToJson(result));
    const std::string key = ToHex(result.key).substr(0, kShownDigits);
    std::string line = fmt::format("{:<8}{:<{}}  {}", NameOf(result.outcome), key, kShownDigits,
                                   WithoutControls(result.name));
    if (!result.label.empty()) line += ", " + result.label;
    if (!result.target.empty()) line += ", " + result.target;
    if (!result.key.empty()) {
      line += fmt::format(", {} kernels", result.kernels);
      if (result.kernels_made > 0) line += fmt::format(" ({} made)", result.kernels_made);
    }
    if (!result.why.empty()) line += ": " + WithoutControls(result.why);
    Print(line + "\n");
    std::fflush(stdout);
  }

  void Finish(const std::string& store, const Numbers& numbers) {
    if (!json_) return PrintNumbers(store, false, numbers);
    nlohmann::json whole = {{"graphs", results_}};
    for (const auto& [name, value] : numbers) whole[name] = value;
    Print(whole.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }

 private:
  static nlohmann::json ToJson(const AheadResult& result) {
    return {{"name", result.name},
            {"label", result.label},
            {"target", result.target},
            {"outcome", NameOf(result.outcome)},
            {"key", ToHex(result.key)},
            {"kernels", result.kernels},
            {"kernels_made", result.kernels_made},
            {"why", result.why}};
  }

  const bool json_;
  std::vector<nlohmann::json> results_;
};

// What the graphs are compiled for: what --target says, or else all that is known.
absl::StatusOr<std::vector<v1::Target>> ChooseTargets(const std::vector<std::string>& words,
                                                      const SeenTargets& seen) {
  std::vector<v1::Target> targets;
  for (const std::string& word : words) {
    TENSORD_ASSIGN_OR_RETURN(targets.emplace_back(), seen.FindOrRead(word));
  }
  if (!words.empty()) return targets;
  for (SeenTarget& one : seen.List()) targets.push_back(std::move(one.target));
  return targets;
}

absl::Status CompileAll(const CompileCommand& command,
                        const std::optional<archive::FileSources>& exported, store::Store& store,
                        AheadCompiler& compiler) {
  for (const std::string& file : command.files) {
    const auto graph = ReadGraph(file);
    if (graph.ok()) {
      compiler.Compile(*graph);
    } else {
      compiler.Fail(file, std::string(graph.status().message()));
    }
  }
  const auto compile = [&](const AheadGraph& graph) {
    compiler.Compile(graph);
    return absl::OkStatus();
  };
  if (command.frames || !command.job.empty()) {
    TENSORD_RETURN_IF_ERROR(StoredGraphs(store, command.job, compile));
  }
  if (exported.has_value()) {
    TENSORD_RETURN_IF_ERROR(
        exported->ShowFrames([&](const v1::Frame& frame) { return GraphsOf(frame, compile); }));
  }
  compiler.Finish();
  return absl::OkStatus();
}

// What keeps jobs from finding what was made. Empty: nothing does.
std::string Trouble(store::Store& store, const v1::Stats& stats) {
  if (const std::string problem = store.problem(); !problem.empty()) {
    return "not all of it is on disk: " + problem;
  }
  if (store.counters().evicted > 0) {
    return absl::StrCat(uint64_t{store.counters().evicted},
                        " programs have made room for others: raise --store-limit");
  }
  if (stats.fleet_dropped() > 0) {
    return absl::StrCat(stats.fleet_dropped(), " of what was made did not get into the fleet (",
                        stats.fleet_problem(), "); tensorctl export writes it as a file");
  }
  return "";
}

// What graphs and targets are read from.
struct Sources {
  std::unique_ptr<store::Store> store;
  std::unique_ptr<fleet::Keys> keys;
  std::optional<archive::FileSources> exported;
  SeenTargets targets;
};

absl::Status ReadExport(const std::string& path, const Config& config, Sources& sources) {
  TENSORD_ASSIGN_OR_RETURN(sources.keys, OpenKeys(config, /*signs=*/false));
  TENSORD_ASSIGN_OR_RETURN(sources.exported, archive::FileSources::Open(path, *sources.keys));
  return sources.exported->ShowPrograms([&](const v1::Artifact& program) {
    if (program.has_target()) sources.targets.Add(program.target());
    return absl::OkStatus();
  });
}

// Null: none is configured.
absl::StatusOr<std::unique_ptr<fleet::Fleet>> OpenFleet(const Config& config) {
  if (config.fleet.empty()) return nullptr;
  return fleet::OpenFleet(FleetSettings(config));
}

int Run(const CompileCommand& command, const Config& config, Sources sources,
        AheadOptions options) {
  const auto fleet = OpenFleet(config);
  if (!fleet.ok()) return Fail(fleet.status());
  if (const absl::Status made = store::MakeFolder(WorkFolder(*sources.store)); !made.ok()) {
    return Fail(made);
  }
  ServiceOptions service_options = MakeServiceOptions(config, *sources.store, /*spare_folder=*/"");
  // Each worker has a graph, and one more waits behind it.
  options.most_at_once = 2 * static_cast<size_t>(service_options.pool.workers);
  // A daemon's bounds on callers: here nobody else waits.
  service_options.max_waiting =
      std::max<uint64_t>(service_options.max_waiting, options.most_at_once);
  service_options.queue_limit = absl::Hours(24 * 365);
  CompileService service(std::move(service_options), std::move(sources.store), "", fleet->get());
  Reporter reporter(command.json);
  AheadCompiler compiler(&service, std::move(options),
                         [&](const AheadResult& result) { reporter.Add(result); });
  const absl::Status read = CompileAll(command, sources.exported, *service.store(), compiler);
  compiler.Finish();
  service.jobs()->Flush();
  if (*fleet != nullptr) (*fleet)->Flush(absl::Now() + kFlush);

  v1::Stats stats;
  service.FillStats(&stats);
  const auto count = [&](AheadOutcome outcome) { return compiler.Count(outcome); };
  Numbers numbers;
  for (const AheadOutcome outcome :
       {AheadOutcome::kMade, AheadOutcome::kHit, AheadOutcome::kFailed, AheadOutcome::kSkipped}) {
    numbers.emplace_back(NameOf(outcome), count(outcome));
  }
  if (*fleet != nullptr) numbers.emplace_back("put", stats.fleet_put());
  reporter.Finish(service.store()->root(), numbers);
  if (!read.ok()) return Fail(read);
  const std::string trouble = Trouble(*service.store(), stats);
  if (!trouble.empty()) return Fail(absl::ResourceExhaustedError(trouble));
  const bool any = count(AheadOutcome::kMade) + count(AheadOutcome::kHit) > 0;
  return any && count(AheadOutcome::kFailed) == 0 ? kExitOk : kExitError;
}

int Dump(const CompileCommand& command) {
  if (command.files.size() != 1 || command.targets.size() > 1) {
    return Fail(absl::InvalidArgumentError("--dump prints one GRAPH, for one --target at most"),
                kExitUsage);
  }
  const std::string target = command.targets.empty() ? "" : command.targets[0];
  return PrintPasses({command.files[0], command.dump_after, target});
}

}  // namespace

CLI::App* AddCompile(CLI::App& app, CompileCommand* compile) {
  CLI::App* const added = app.add_subcommand(
      "compile",
      "programs into the store before a job asks for them, for GPUs that are not here, "
      "too; no daemon");
  added->add_option("GRAPH", compile->files,
                    "a job of <store>/repros/, or a graph, serialised or as text");
  CLI::Option* const frames =
      added->add_flag("--frames", compile->frames, "the graphs of all frames that are stored");
  added
      ->add_option("--job", compile->job,
                   "of the frames that this job used (TENSORD_JOB); it is said to use the programs")
      ->excludes(frames);
  added->add_option("--export", compile->export_file,
                    "of the frames in a file of tensorctl export, of any build");
  added
      ->add_option("--target", compile->targets,
                   "a file of tensorctl targets, or a name there; without it, what programs in the "
                   "store and the export are for, or what came with the graph")
      ->allow_extra_args(false);
  added->add_flag(
      "--dump", compile->dumps,
      "only print what each pass makes of one GRAPH; a --target is scalar, avx2, avx512 "
      "or sm_NN then");
  added->add_option("--dump-after", compile->dump_after, "the same of this pass alone");
  AddSettings(added,
              {"store", "store_limit", "worker", "workers", "cxx", "cxx_flags", "nvrtc",
               "job_seconds", "job_memory", "confine", "fleet", "fleet_trust", "fleet_sign_key",
               "fleet_password_file", "fleet_ca"},
              &compile->settings);
  return added;
}

int Compile(const CompileCommand& command) {
  if (command.dumps || !command.dump_after.empty()) return Dump(command);
  if (command.files.empty() && !command.frames && command.job.empty() &&
      command.export_file.empty()) {
    return Fail(absl::InvalidArgumentError("give GRAPHs, --frames, --job or --export"), kExitUsage);
  }
  umask(077);
  spdlog::set_level(spdlog::level::off);  // results say it
  const auto config = LoadConfig(command.settings.flags, command.settings.file);
  if (!config.ok()) return Fail(config.status(), kExitUsage);
  Sources sources;
  sources.store = OpenOrMakeStore(config->store, config->store_limit);
  if (sources.store == nullptr) return kExitError;
  absl::Status read = sources.targets.AddStored(*sources.store);
  if (read.ok() && !command.export_file.empty()) {
    read = ReadExport(command.export_file, *config, sources);
  }
  if (!read.ok()) return Fail(read);
  AheadOptions options;
  auto targets = ChooseTargets(command.targets, sources.targets);
  if (!targets.ok()) return Fail(targets.status(), kExitUsage);
  options.targets = *std::move(targets);
  options.own_first = command.targets.empty();
  options.job = command.job;
  return Run(command, *config, std::move(sources), std::move(options));
}

}  // namespace tensord::server
