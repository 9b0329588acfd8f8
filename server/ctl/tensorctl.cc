// SPDX-License-Identifier: Apache-2.0
// tensorctl: asks a running daemon, a store, or the compiler itself.
#include <absl/strings/str_join.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

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

int Main(int argc, char** argv) {
  CLI::App app(
      "Asks a running tensord, its store, or its compiler.\nExit codes: 0 ok, 1 error, 2 usage, 3 "
      "no daemon "
      "answers.",
      "tensorctl");
  Client client;
  client.address = DefaultAddress();
  app.set_version_flag("--version", Version());
  app.add_option("--address", client.address, "the daemon's socket, or tls://host:port")
      ->envname("TENSORD_ADDRESS");
  app.add_option("--tls-ca", client.tls.ca, "authorities whose certificates a daemon may show")
      ->envname("TENSORD_TLS_CA");
  app.add_option("--tls-cert", client.tls.cert, "certificate for a daemon that asks for one")
      ->envname("TENSORD_TLS_CERT");
  app.add_option("--tls-key", client.tls.key, "its private key")->envname("TENSORD_TLS_KEY");
  app.add_option("--token-file", client.tls.token, "token for a daemon that asks for one")
      ->envname("TENSORD_TOKEN_FILE");
  app.add_flag("--json", client.json, "for programs");
  app.fallthrough();
  app.require_subcommand(1);

  std::function<int()> command;
  app.add_subcommand("status", "is it up, where is its store")->callback([&] {
    command = [&] { return Status(client); };
  });
  app.add_subcommand("stats", "counters and compile time by stage")->callback([&] {
    command = [&] { return Stats(client); };
  });
  uint32_t limit = 0;
  CLI::App* list = app.add_subcommand("ls", "stored programs, last used first");
  list->add_option("--limit,-n", limit, "at most so many");
  std::string search, order = "used";
  list->add_option("--search", search, "of those with this key, or this in label or target");
  list->add_option("--order", order, "used, hits, bytes, compile_time or created; falling")
      ->check(CLI::IsMember({"used", "hits", "bytes", "compile_time", "created"}));
  list->callback([&] { command = [&] { return List(client, limit, search, order); }; });
  std::string key;
  CLI::App* show = app.add_subcommand("show", "one program: plan, kernels, fusion notes");
  show->add_option("KEY", key, "the key's first 8 or more hex digits")->required();
  show->callback([&] { command = [&] { return Show(client, key); }; });
  int number = 0;
  CLI::App* kernel = app.add_subcommand("kernel", "the source of one kernel");
  kernel->add_option("KEY", key, "the program's key")->required();
  kernel->add_option("N", number, "the kernel's number, as `show` gives it")->required();
  kernel->callback([&] { command = [&] { return Kernel(client, key, number); }; });
  CLI::App* frames = app.add_subcommand("frames", "stored frames, last used first");
  frames->add_option("--limit,-n", limit, "at most so many");
  frames->callback([&] { command = [&] { return Frames(client, limit); }; });
  CLI::App* frame = app.add_subcommand("frame", "one frame: code, guards in words, programs");
  frame->add_option("KEY", key, "the key's first 8 or more hex digits")->required();
  frame->callback([&] { command = [&] { return ShowFrame(client, key); }; });
  std::string missed, job;
  CLI::App* explain = app.add_subcommand(
      "explain-miss",
      "why frames did not serve: the guard, and what was there; and why programs "
      "were compiled: the nearest that is stored, and what differs");
  explain->add_option("KEY", missed,
                      "of one frame or program: its key's first 8 or more hex digits");
  explain->add_option("--job", job, "of processes of this job (TENSORD_JOB)");
  explain->add_option("--limit,-n", limit, "at most so many of either");
  explain->callback([&] { command = [&] { return ExplainMiss(client, missed, job, limit); }; });
  CLI::App* in_flight =
      app.add_subcommand("in-flight", "compiles that somebody waits for, and how far they are");
  in_flight->callback([&] { command = [&] { return InFlight(client); }; });
  app.add_subcommand("jobs", "who asks for programs and frames, the latest first")->callback([&] {
    command = [&] { return Jobs(client); };
  });
  CLI::App* one_job = app.add_subcommand("job", "the processes of one job, by rank");
  one_job->add_option("NAME", job, "of the job (TENSORD_JOB); without: processes of none");
  one_job->callback([&] { command = [&] { return ShowJob(client, job); }; });
  TraceCommand trace;
  bool last = false;
  CLI::App* traces = app.add_subcommand(
      "trace", "what requests waited for: a trace for ui.perfetto.dev or chrome://tracing");
  CLI::Option* traced = traces->add_option("KEY", trace.key, "of one program, 8 or more digits");
  CLI::Option* traced_job = traces->add_option("--job", trace.job, "of this job (TENSORD_JOB)");
  CLI::Option* limited =
      traces->add_option("--limit,-n", trace.limit, "the latest so many of those that are kept");
  traces->add_flag("--last", last, "the latest request alone")->excludes(limited);
  traces->add_option("--output,-o", trace.file, "the file (standard output)");
  traced->excludes(traced_job);
  traces->callback([&] {
    if (last) trace.limit = 1;
    if (trace.key.empty() && trace.job.empty() && !last) {
      throw CLI::RequiredError("one of KEY, --job and --last");
    }
    command = [&] { return Trace(client, trace); };
  });
  ProfileCommand profile;
  CLI::App* profiles = app.add_subcommand(
      "profile",
      "where the time of a compiled call went, as tensord.profile() measured it in a job; "
      "without arguments a list");
  CLI::Option* profiled =
      profiles->add_option("KEY", profile.key, "the latest with this program, 8 or more digits");
  CLI::Option* profiled_job =
      profiles->add_option("--job", profile.job, "the latest of this job (TENSORD_JOB)");
  CLI::Option* profiled_pid =
      profiles->add_option("--pid", profile.pid, "of this process")->check(CLI::PositiveNumber);
  CLI::Option* numbered =
      profiles->add_option("--number", profile.id, "of the list")->check(CLI::PositiveNumber);
  profiles->add_flag("--last", profile.last, "the latest of all");
  CLI::Option* formatted =
      profiles
          ->add_option(
              "--format", profile.format,
              "table, json, or a flame graph: speedscope (www.speedscope.app) or folded stacks")
          ->check(CLI::IsMember({"table", "json", "speedscope", "folded"}));
  CLI::Option* written =
      profiles->add_option("--output,-o", profile.file, "the file (standard output)");
  profiled->excludes(profiled_job)->excludes(profiled_pid)->excludes(numbered);
  profiles->callback([&] {
    if (client.json && formatted->count() > 0 && profile.format != "json") {
      throw CLI::ExcludesError("--json", "--format " + profile.format);
    }
    // Of one, which is the latest where it is not said.
    if (formatted->count() > 0 || written->count() > 0) profile.last = true;
    command = [&] { return Profile(client, profile); };
  });
  std::string page;
  CLI::App* opens = app.add_subcommand("ui", "the URL of the daemon's page, for a browser");
  opens->add_option("--at", page, "where to serve it: 127.0.0.1:PORT (as configured, or any port)");
  opens->callback([&] { command = [&] { return OpenPage(client, page); }; });
  TopCommand top;
  CLI::App* watches = app.add_subcommand("top", "what the daemon does, live; q ends it");
  watches->add_option("--interval", top.interval_seconds, "seconds from look to look (default 1)")
      ->check(CLI::Range(0.1, 3600.0));
  watches->add_flag("--once", top.once, "one look, printed");
  watches->add_option("--lines", top.lines, "so many lines, one an interval (0: until Ctrl-C)")
      ->check(CLI::NonNegativeNumber);
  watches->callback([&] { command = [&] { return Top(client, top); }; });
  CompileCommand compile;
  CLI::App* compiles = AddCompile(app, &compile);
  TargetsCommand targets;
  CLI::App* lists_targets = AddTargets(app, &targets);
  FleetKeyCommand fleet_key;
  CLI::App* makes_key =
      app.add_subcommand("fleet-key", "make a key that signs for a fleet; prints its public half");
  makes_key->add_option("FILE", fleet_key.file, "of the private key, to be made")->required();
  makes_key->add_option("NAME", fleet_key.name, "of the key, in files of trust")->required();
  std::string shell;
  CLI::App* completes = app.add_subcommand(
      "completion", "a script by which a shell completes tensorctl's commands and flags");
  completes->add_option("SHELL", shell, absl::StrJoin(Shells(), ", "))
      ->required()
      ->check(CLI::IsMember(Shells()));
  CLI::App* manual = app.add_subcommand("man", "tensorctl's manual, as a page for man(1)");
  StoreCommand store;
  std::function<int()> on_store;
  std::function<int(const ArchiveCommand&)> on_archive;
  const auto add_store_command = [&](const char* name, const char* what,
                                     int (*run)(const StoreCommand&)) {
    CLI::App* added = app.add_subcommand(name, what);
    // One for each: the environment is read for the commands that are not given, too.
    const auto root = std::make_shared<std::string>(DefaultStore());
    added->add_option("--store", *root, "the store's folder")->envname("TENSORD_STORE");
    added->callback([&, run, root] {
      store.root = *root;
      on_store = [&, run] { return run(store); };
    });
  };
  add_store_command("verify", "read the whole store; remove what is damaged", VerifyStore);
  add_store_command("gc", "remove what no program needs; the index agrees with the files",
                    CollectGarbage);
  add_store_command("du", "what the store takes on disk", DiskUsage);
  add_store_command("rebuild-index", "make the store's index of its records", RebuildIndex);
  add_store_command("rotate-key", "sign with a new key from now on; eight former ones still count",
                    RotateKey);
  ArchiveCommand archive;
  CLI::App* exports = app.add_subcommand(
      "export", "programs and frames as one signed file, for an image or a closed network");
  exports->add_option("FILE", archive.file, "to be written")->required();
  CLI::Option* keys = exports->add_option(
      "KEY", archive.keys, "of a program or a frame: its first 8 or more hex digits");
  CLI::Option* of_job =
      exports->add_option("--job", archive.job, "what processes of this job used (TENSORD_JOB)")
          ->excludes(keys);
  exports->add_flag("--all", archive.all, "all that is stored")->excludes(keys)->excludes(of_job);
  AddSettings(exports, {"store", "fleet_sign_key", "worker"}, &archive.settings);
  exports->callback([&] { on_archive = ExportStore; });
  CLI::App* imports =
      app.add_subcommand("import", "what such a file has, into the store, once it is verified");
  imports->add_option("FILE", archive.file, "of tensorctl export")->required();
  imports->add_flag("--check", archive.check, "only say what is in it, or what is wrong with it");
  imports->add_flag("--any-toolchain", archive.any_toolchain,
                    "also of compilers that this host does not have");
  AddSettings(imports,
              {"store", "store_limit", "fleet_sign_key", "fleet_trust", "worker", "cxx",
               "cxx_flags", "nvrtc"},
              &archive.settings);
  imports->callback([&] { on_archive = ImportStore; });
  CLI::App* prefetches = app.add_subcommand(
      "prefetch", "what a job used, from the fleet into the store, before the job starts");
  CLI::Option* programs = prefetches->add_option("KEY", archive.keys, "of a program, in full");
  prefetches->add_option("--job", archive.job, "what its processes used (TENSORD_JOB)")
      ->excludes(programs);
  AddSettings(prefetches,
              {"store", "store_limit", "fleet", "fleet_trust", "fleet_sign_key",
               "fleet_password_file", "fleet_ca"},
              &archive.settings);
  prefetches->callback([&] { on_archive = PrefetchFromFleet; });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  if (compiles->parsed()) {
    compile.json = client.json;
    return Compile(compile);
  }
  if (lists_targets->parsed()) {
    targets.json = client.json;
    return Targets(targets);
  }
  if (makes_key->parsed()) {
    fleet_key.json = client.json;
    return MakeFleetKey(fleet_key);
  }
  if (completes->parsed()) {
    Print(CompletionScript(app, shell));
    return kExitOk;
  }
  if (manual->parsed()) {
    Print(ManualPage(app, 1));
    return kExitOk;
  }
  archive.json = client.json;
  if (on_archive) return on_archive(archive);
  store.json = client.json;
  if (on_store) return on_store();
  if (const absl::Status connected = Connect(client); !connected.ok()) {
    std::fprintf(stderr, "tensorctl: %s\n", std::string(connected.message()).c_str());
    return kExitUsage;
  }
  return command();
}

}  // namespace
}  // namespace tensord::server

int main(int argc, char** argv) { return tensord::server::Main(argc, argv); }
