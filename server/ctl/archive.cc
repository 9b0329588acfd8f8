// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/archive.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "server/archive/export.h"
#include "server/archive/import.h"
#include "server/archive/prefetch.h"
#include "server/config/fleet_settings.h"
#include "server/ctl/client.h"
#include "server/ctl/numbers.h"
#include "server/ctl/output.h"
#include "server/ctl/store.h"
#include "server/fleet/exchange.h"
#include "server/fleet/keys.h"
#include "server/fleet/open.h"

namespace tensord::server {
namespace {

// What all of them need to know.
struct Context {
  Config config;
  std::unique_ptr<fleet::Keys> keys;
};

absl::StatusOr<Context> Prepare(const ArchiveCommand& command, bool signs) {
  Context context;
  TENSORD_ASSIGN_OR_RETURN(context.config,
                           LoadConfig(command.settings.flags, command.settings.file));
  TENSORD_ASSIGN_OR_RETURN(context.keys, OpenKeys(context.config, signs));
  return context;
}

void PrintToolchains(const ArchiveCommand& command,
                     const std::vector<archive::Toolchain>& toolchains) {
  if (command.json) return;
  for (const archive::Toolchain& toolchain : toolchains) {
    std::printf("for %s compiled with %s\n", toolchain.target.c_str(), Describe(toolchain).c_str());
  }
}

absl::StatusOr<archive::Selection> Select(const ArchiveCommand& command, store::Store& store) {
  if (command.all) return archive::SelectAll(store);
  if (!command.job.empty()) return archive::SelectJob(store, command.job);
  std::vector<std::string> prefixes;
  for (const std::string& hex : command.keys) {
    if (!ReadKey(hex, &prefixes.emplace_back())) return absl::InvalidArgumentError("no key");
  }
  return archive::SelectKeys(store, prefixes);
}

// Of programs, by whole keys: a tier finds nothing by the beginning of one.
absl::StatusOr<std::vector<fleet::Name>> ProgramNames(const std::vector<std::string>& keys) {
  std::vector<fleet::Name> names;
  for (const std::string& hex : keys) {
    TENSORD_ASSIGN_OR_RETURN(names.emplace_back(), archive::ParseName("program/" + hex));
  }
  return names;
}

}  // namespace

int ExportStore(const ArchiveCommand& command) {
  if (!command.all && command.job.empty() && command.keys.empty()) {
    return Fail(absl::InvalidArgumentError("give KEYs, --job or --all"), kExitUsage);
  }
  const auto context = Prepare(command, /*signs=*/true);
  if (!context.ok()) return Fail(context.status());
  const auto compiler_build = CompilerBuild(context->config);
  if (!compiler_build.ok()) return Fail(compiler_build.status());
  const auto store = OpenStore(context->config.store, /*limit_bytes=*/0);
  if (store == nullptr) return kExitError;
  const auto selection = Select(command, *store);
  if (absl::IsInvalidArgument(selection.status())) return kExitUsage;  // said already
  if (!selection.ok()) return Fail(selection.status());
  const auto exported =
      archive::Export(*store, *context->keys, *selection, *compiler_build, command.file);
  if (!exported.ok()) return Fail(exported.status());
  PrintNumbers(command.file, command.json,
               {{"programs", exported->programs},
                {"frames", exported->frames},
                {"of other builds", exported->of_others},
                {"left out", exported->left_out.size()},
                {"bytes", exported->bytes}});
  PrintToolchains(command, exported->toolchains);
  for (const std::string& one : exported->left_out) {
    std::fprintf(stderr, "tensorctl: left out: %s\n", one.c_str());
  }
  return exported->left_out.empty() ? kExitOk : kExitError;
}

int PrefetchFromFleet(const ArchiveCommand& command) {
  if (command.job.empty() && command.keys.empty()) {
    return Fail(absl::InvalidArgumentError("give KEYs or --job"), kExitUsage);
  }
  const auto context = Prepare(command, /*signs=*/false);
  if (!context.ok()) return Fail(context.status());
  const Config& config = context->config;
  if (config.fleet.empty()) {
    return Fail(absl::FailedPreconditionError("give --fleet, the tier that hosts share"));
  }
  const auto tier = fleet::OpenTier(FleetSettings(config));
  if (!tier.ok()) return Fail(tier.status());
  fleet::Exchange exchange(tier->get(), context->keys.get());
  const auto names =
      command.job.empty() ? ProgramNames(command.keys) : archive::NamesOfJob(exchange, command.job);
  if (absl::IsNotFound(names.status())) {
    return Fail(absl::NotFoundError("no host of the fleet has said what job '" + command.job +
                                    "' used (TENSORD_JOB)"));
  }
  if (!names.ok()) return Fail(names.status());
  const auto store = OpenOrMakeStore(config.store, config.store_limit);
  if (store == nullptr) return kExitError;
  const auto fetched = archive::Prefetch(*store, exchange, *names);
  if (!fetched.ok()) return Fail(fetched.status());
  PrintNumbers((*tier)->Where(), command.json,
               {{"programs", fetched->programs},
                {"frames", fetched->frames},
                {"stored before", fetched->stored_before},
                {"missing", fetched->missing},
                {"refused", fetched->refused.size()}});
  for (const std::string& one : fetched->refused) {
    std::fprintf(stderr, "tensorctl: refused: %s\n", one.c_str());
  }
  return fetched->refused.empty() ? kExitOk : kExitError;
}

int ImportStore(const ArchiveCommand& command) {
  const auto context = Prepare(command, /*signs=*/false);
  if (!context.ok()) return Fail(context.status());
  const auto compiler_build = CompilerBuild(context->config);
  if (!compiler_build.ok()) return Fail(compiler_build.status());
  archive::Host host{*compiler_build, nullptr};
  if (!command.any_toolchain) {
    host.toolchain = [&](const std::string& target) {
      return FindToolchain(context->config, target);
    };
  }
  absl::StatusOr<archive::Imported> imported;
  if (command.check) {
    imported = archive::CheckFile(*context->keys, host, command.file);
  } else {
    const auto store = OpenOrMakeStore(context->config.store, context->config.store_limit);
    if (store == nullptr) return kExitError;
    imported = archive::Import(*store, *context->keys, host, command.file);
  }
  if (!imported.ok()) return Fail(imported.status());
  PrintNumbers(command.file, command.json,
               {{"programs", imported->programs},
                {"frames", imported->frames},
                {"stored before", imported->stored_before}});
  PrintToolchains(command, imported->toolchains);
  return kExitOk;
}

}  // namespace tensord::server
