// SPDX-License-Identifier: Apache-2.0
// tensorctl: asks a running daemon, a store, or the compiler itself.
#include <absl/strings/str_join.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "base/version.h"
#include "server/cli/documents.h"
#include "server/ctl/archive.h"
#include "server/ctl/commands.h"
#include "server/ctl/compile.h"
#include "server/ctl/fleet.h"
#include "server/ctl/store.h"
#include "server/ctl/targets.h"
#include "server/ctl/top.h"
#include "server/rpc/address.h"

namespace tensord::server {
namespace {

// A command line: its commands, and what they were given.
class CommandLine {
 public:
  CommandLine() {
    AddClient();
    AddStatistics();
    AddPrograms();
    AddFrames();
    AddJobs();
    AddTrace();
    AddProfile();
    AddPage();
    AddCompiler();
    AddFleetKey();
    AddDocuments();
    AddStore();
    AddArchives();
  }

  int Run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app_.exit(error) == 0 ? kExitOk : kExitUsage;
    }
    if (local_) return local_();
    if (const absl::Status connected = Connect(client_); !connected.ok()) {
      std::fprintf(stderr, "tensorctl: %s\n", std::string(connected.message()).c_str());
      return kExitUsage;
    }
    return question_();
  }

 private:
  using Action = std::function<int()>;

  // What a command does: something of a daemon's, or without one.
  void Asks(CLI::App* added, Action action) {
    added->callback([this, action = std::move(action)] { question_ = action; });
  }
  void RunsHere(CLI::App* added, Action action) {
    added->callback([this, action = std::move(action)] { local_ = action; });
  }
  // The same, told whether its output is for programs.
  template <typename Command>
  void RunsHere(CLI::App* added, Command* command, int (*run)(const Command&)) {
    RunsHere(added, [this, command, run] {
      command->json = client_.json;
      return run(*command);
    });
  }

  void AddClient() {
    client_.address = DefaultAddress();
    app_.set_version_flag("--version", Version());
    app_.add_option("--address", client_.address, "the daemon's socket, or tls://host:port")
        ->envname("TENSORD_ADDRESS");
    app_.add_option("--tls-ca", client_.tls.ca, "authorities whose certificates a daemon may show")
        ->envname("TENSORD_TLS_CA");
    app_.add_option("--tls-cert", client_.tls.cert, "certificate for a daemon that asks for one")
        ->envname("TENSORD_TLS_CERT");
    app_.add_option("--tls-key", client_.tls.key, "its private key")->envname("TENSORD_TLS_KEY");
    app_.add_option("--token-file", client_.tls.token, "token for a daemon that asks for one")
        ->envname("TENSORD_TOKEN_FILE");
    app_.add_flag("--json", client_.json, "for programs");
    app_.fallthrough();
    app_.require_subcommand(1);
  }

  void AddStatistics() {
    Asks(app_.add_subcommand("status", "is it up, where is its store"),
         [this] { return Status(client_); });
    Asks(app_.add_subcommand("stats", "counters and compile time by stage"),
         [this] { return Stats(client_); });
  }

  void AddPrograms() {
    CLI::App* list = app_.add_subcommand("ls", "stored programs, last used first");
    list->add_option("--limit,-n", limit_, "at most so many");
    list->add_option("--search", search_, "of those with this key, or this in label or target");
    list->add_option("--order", order_, "used, hits, bytes, compile_time or created; falling")
        ->check(CLI::IsMember({"used", "hits", "bytes", "compile_time", "created"}));
    Asks(list, [this] { return List(client_, limit_, search_, order_); });
    CLI::App* show = app_.add_subcommand("show", "one program: plan, kernels, fusion notes");
    show->add_option("KEY", key_, "the key's first 8 or more hex digits")->required();
    Asks(show, [this] { return Show(client_, key_); });
    CLI::App* kernel = app_.add_subcommand("kernel", "the source of one kernel");
    kernel->add_option("KEY", key_, "the program's key")->required();
    kernel->add_option("N", number_, "the kernel's number, as `show` gives it")->required();
    Asks(kernel, [this] { return Kernel(client_, key_, number_); });
  }

  void AddFrames() {
    CLI::App* frames = app_.add_subcommand("frames", "stored frames, last used first");
    frames->add_option("--limit,-n", limit_, "at most so many");
    Asks(frames, [this] { return Frames(client_, limit_); });
    CLI::App* frame = app_.add_subcommand("frame", "one frame: code, guards in words, programs");
    frame->add_option("KEY", key_, "the key's first 8 or more hex digits")->required();
    Asks(frame, [this] { return ShowFrame(client_, key_); });
    CLI::App* explain = app_.add_subcommand(
        "explain-miss",
        "why frames did not serve: the guard, and what was there; and why programs "
        "were compiled: the nearest that is stored, and what differs");
    explain->add_option("KEY", missed_,
                        "of one frame or program: its key's first 8 or more hex digits");
    explain->add_option("--job", job_, "of processes of this job (TENSORD_JOB)");
    explain->add_option("--limit,-n", limit_, "at most so many of either");
    Asks(explain, [this] { return ExplainMiss(client_, missed_, job_, limit_); });
  }

  void AddJobs() {
    Asks(app_.add_subcommand("in-flight", "compiles that somebody waits for, and how far they are"),
         [this] { return InFlight(client_); });
    Asks(app_.add_subcommand("jobs", "who asks for programs and frames, the latest first"),
         [this] { return Jobs(client_); });
    CLI::App* one = app_.add_subcommand("job", "the processes of one job, by rank");
    one->add_option("NAME", job_, "of the job (TENSORD_JOB); without: processes of none");
    Asks(one, [this] { return ShowJob(client_, job_); });
  }

  void AddTrace() {
    CLI::App* added = app_.add_subcommand(
        "trace", "what requests waited for: a trace for ui.perfetto.dev or chrome://tracing");
    CLI::Option* key = added->add_option("KEY", trace_.key, "of one program, 8 or more digits");
    CLI::Option* job = added->add_option("--job", trace_.job, "of this job (TENSORD_JOB)");
    CLI::Option* limit =
        added->add_option("--limit,-n", trace_.limit, "the latest so many of those that are kept");
    added->add_flag("--last", last_trace_, "the latest request alone")->excludes(limit);
    added->add_option("--output,-o", trace_.file, "the file (standard output)");
    key->excludes(job);
    added->callback([this] {
      if (last_trace_) trace_.limit = 1;
      if (trace_.key.empty() && trace_.job.empty() && !last_trace_) {
        throw CLI::RequiredError("one of KEY, --job and --last");
      }
      question_ = [this] { return Trace(client_, trace_); };
    });
  }

  void AddProfile() {
    CLI::App* added = app_.add_subcommand(
        "profile",
        "where the time of a compiled call went, as tensord.profile() measured it in a job; "
        "without arguments a list");
    CLI::Option* key =
        added->add_option("KEY", profile_.key, "the latest with this program, 8 or more digits");
    CLI::Option* job =
        added->add_option("--job", profile_.job, "the latest of this job (TENSORD_JOB)");
    CLI::Option* pid =
        added->add_option("--pid", profile_.pid, "of this process")->check(CLI::PositiveNumber);
    CLI::Option* number =
        added->add_option("--number", profile_.id, "of the list")->check(CLI::PositiveNumber);
    added->add_flag("--last", profile_.last, "the latest of all");
    CLI::Option* format =
        added
            ->add_option(
                "--format", profile_.format,
                "table, json, or a flame graph: speedscope (www.speedscope.app) or folded stacks")
            ->check(CLI::IsMember({"table", "json", "speedscope", "folded"}));
    CLI::Option* file =
        added->add_option("--output,-o", profile_.file, "the file (standard output)");
    key->excludes(job)->excludes(pid)->excludes(number);
    added->callback([this, format, file] {
      if (client_.json && format->count() > 0 && profile_.format != "json") {
        throw CLI::ExcludesError("--json", "--format " + profile_.format);
      }
      // Of one, which is the latest where it is not said.
      if (format->count() > 0 || file->count() > 0) profile_.last = true;
      question_ = [this] { return Profile(client_, profile_); };
    });
  }

  void AddPage() {
    CLI::App* ui = app_.add_subcommand("ui", "the URL of the daemon's page, for a browser");
    ui->add_option("--at", page_, "where to serve it: 127.0.0.1:PORT (as configured, or any port)");
    Asks(ui, [this] { return OpenPage(client_, page_); });
    CLI::App* top = app_.add_subcommand("top", "what the daemon does, live; q ends it");
    top->add_option("--interval", top_.interval_seconds, "seconds from look to look (default 1)")
        ->check(CLI::Range(0.1, 3600.0));
    top->add_flag("--once", top_.once, "one look, printed");
    top->add_option("--lines", top_.lines, "so many lines, one an interval (0: until Ctrl-C)")
        ->check(CLI::NonNegativeNumber);
    Asks(top, [this] { return Top(client_, top_); });
  }

  void AddCompiler() {
    RunsHere(AddCompile(app_, &compile_), &compile_, Compile);
    RunsHere(AddTargets(app_, &targets_), &targets_, Targets);
  }

  void AddFleetKey() {
    CLI::App* makes_key = app_.add_subcommand(
        "fleet-key", "make a key that signs for a fleet; prints its public half");
    makes_key->add_option("FILE", fleet_key_.file, "of the private key, to be made")->required();
    makes_key->add_option("NAME", fleet_key_.name, "of the key, in files of trust")->required();
    RunsHere(makes_key, &fleet_key_, MakeFleetKey);
  }

  void AddDocuments() {
    CLI::App* completion = app_.add_subcommand(
        "completion", "a script by which a shell completes tensorctl's commands and flags");
    completion->add_option("SHELL", shell_, absl::StrJoin(Shells(), ", "))
        ->required()
        ->check(CLI::IsMember(Shells()));
    RunsHere(completion, [this] {
      Print(CompletionScript(app_, shell_));
      return kExitOk;
    });
    RunsHere(app_.add_subcommand("man", "tensorctl's manual, as a page for man(1)"), [this] {
      Print(ManualPage(app_, 1));
      return kExitOk;
    });
  }

  void AddStore() {
    constexpr struct {
      const char *name, *what;
      int (*run)(const StoreCommand&);
    } kCommands[] = {
        {"verify", "read the whole store; remove what is damaged", VerifyStore},
        {"gc", "remove what no program needs; the index agrees with the files", CollectGarbage},
        {"du", "what the store takes on disk", DiskUsage},
        {"rebuild-index", "make the store's index of its records", RebuildIndex},
        {"rotate-key", "sign with a new key from now on; eight former ones still count", RotateKey},
    };
    for (const auto& [name, what, run] : kCommands) {
      CLI::App* added = app_.add_subcommand(name, what);
      StoreCommand& command = stores_.emplace_back(StoreCommand{.root = DefaultStore()});
      added->add_option("--store", command.root, "the store's folder")->envname("TENSORD_STORE");
      RunsHere(added, &command, run);
    }
  }

  void AddArchives() {
    CLI::App* exports = app_.add_subcommand(
        "export", "programs and frames as one signed file, for an image or a closed network");
    exports->add_option("FILE", archive_.file, "to be written")->required();
    CLI::Option* keys = exports->add_option(
        "KEY", archive_.keys, "of a program or a frame: its first 8 or more hex digits");
    CLI::Option* job =
        exports->add_option("--job", archive_.job, "what processes of this job used (TENSORD_JOB)")
            ->excludes(keys);
    exports->add_flag("--all", archive_.all, "all that is stored")->excludes(keys)->excludes(job);
    AddSettings(exports, {"store", "fleet_sign_key", "worker"}, &archive_.settings);
    RunsHere(exports, &archive_, ExportStore);
    CLI::App* imports =
        app_.add_subcommand("import", "what such a file has, into the store, once it is verified");
    imports->add_option("FILE", archive_.file, "of tensorctl export")->required();
    imports->add_flag("--check", archive_.check,
                      "only say what is in it, or what is wrong with it");
    imports->add_flag("--any-toolchain", archive_.any_toolchain,
                      "also of compilers that this host does not have");
    AddSettings(imports,
                {"store", "store_limit", "fleet_sign_key", "fleet_trust", "worker", "cxx",
                 "cxx_flags", "nvrtc"},
                &archive_.settings);
    RunsHere(imports, &archive_, ImportStore);
    CLI::App* prefetches = app_.add_subcommand(
        "prefetch", "what a job used, from the fleet into the store, before the job starts");
    CLI::Option* programs = prefetches->add_option("KEY", archive_.keys, "of a program, in full");
    prefetches->add_option("--job", archive_.job, "what its processes used (TENSORD_JOB)")
        ->excludes(programs);
    AddSettings(prefetches,
                {"store", "store_limit", "fleet", "fleet_trust", "fleet_sign_key",
                 "fleet_password_file", "fleet_ca"},
                &archive_.settings);
    RunsHere(prefetches, &archive_, PrefetchFromFleet);
  }

  CLI::App app_{
      "Asks a running tensord, its store, or its compiler.\nExit codes: 0 ok, 1 error, 2 usage, 3 "
      "no daemon "
      "answers.",
      "tensorctl"};
  Client client_;
  Action question_, local_;  // of the command that was given
  uint32_t limit_ = 0;
  int number_ = 0;
  std::string search_, order_ = "used", key_, missed_, job_, page_, shell_;
  bool last_trace_ = false;
  TraceCommand trace_;
  ProfileCommand profile_;
  TopCommand top_;
  CompileCommand compile_;
  TargetsCommand targets_;
  FleetKeyCommand fleet_key_;
  // One for each: the environment is read for the commands that are not given, too.
  std::deque<StoreCommand> stores_;
  ArchiveCommand archive_;
};

}  // namespace
}  // namespace tensord::server

int main(int argc, char** argv) {
  // A connection to the fleet's tier that was closed is an error there, not the end.
  signal(SIGPIPE, SIG_IGN);
  return tensord::server::CommandLine().Run(argc, argv);
}
