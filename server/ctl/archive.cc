// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/archive.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "server/archive/export.h"
#include "server/archive/import.h"
#include "server/ctl/client.h"
#include "server/ctl/numbers.h"
#include "server/ctl/store.h"
#include "server/fleet/keys.h"

namespace tensord::server {
namespace {

int Fail(const absl::Status& status, int code = kExitError) {
  std::fprintf(stderr, "tensorctl: %s\n", std::string(status.message()).c_str());
  return code;
}

// What both commands need to know.
struct Context {
  Config config;
  std::string compiler_build;
  std::unique_ptr<fleet::Keys> keys;
};

absl::StatusOr<Context> Prepare(const ArchiveCommand& command, bool signs) {
  Context context;
  TENSORD_ASSIGN_OR_RETURN(context.config,
                           LoadConfig(command.settings.flags, command.settings.file));
  const Config& config = context.config;
  if (signs && config.fleet_sign_key.empty()) {
    return absl::FailedPreconditionError(
        "an export is signed: give --fleet-sign-key (tensorctl fleet-key makes one)");
  }
  if (config.fleet_sign_key.empty() && config.fleet_trust.empty()) {
    return absl::FailedPreconditionError(
        "give --fleet-trust, a file of the keys whose exports are accepted");
  }
  TENSORD_ASSIGN_OR_RETURN(context.compiler_build, CompilerBuild(config));
  // Whoever only reads needs no private key.
  TENSORD_ASSIGN_OR_RETURN(
      context.keys,
      fleet::Keys::Open(signs || config.fleet_trust.empty() ? config.fleet_sign_key : "",
                        config.fleet_trust));
  return context;
}

void PrintToolchains(const ArchiveCommand& command, const std::vector<std::string>& toolchains) {
  if (command.json) return;
  for (const std::string& id : toolchains) std::printf("compiled with %s\n", id.c_str());
}

absl::StatusOr<archive::Selection> Select(const ArchiveCommand& command, store::Store& store) {
  if (command.all) return archive::SelectAll(store);
  std::vector<std::string> prefixes;
  for (const std::string& hex : command.keys) {
    if (!ReadKey(hex, &prefixes.emplace_back())) return absl::InvalidArgumentError("no key");
  }
  return archive::SelectKeys(store, prefixes);
}

}  // namespace

int ExportStore(const ArchiveCommand& command) {
  if (!command.all && command.keys.empty()) {
    return Fail(absl::InvalidArgumentError("give KEYs, or --all"), kExitUsage);
  }
  const auto context = Prepare(command, /*signs=*/true);
  if (!context.ok()) return Fail(context.status());
  const auto store = OpenStore(context->config.store, /*limit_bytes=*/0);
  if (store == nullptr) return kExitError;
  const auto selection = Select(command, *store);
  if (absl::IsInvalidArgument(selection.status())) return kExitUsage;  // said already
  if (!selection.ok()) return Fail(selection.status());
  const auto exported = archive::Export(*store, *context->keys, *selection,
                                        context->compiler_build, command.file);
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

int ImportStore(const ArchiveCommand& command) {
  const auto context = Prepare(command, /*signs=*/false);
  if (!context.ok()) return Fail(context.status());
  absl::StatusOr<archive::Imported> imported;
  if (command.check) {
    imported = archive::CheckFile(*context->keys, context->compiler_build, command.file);
  } else {
    const auto store = OpenOrMakeStore(context->config.store, context->config.store_limit);
    if (store == nullptr) return kExitError;
    imported =
        archive::Import(*store, *context->keys, context->compiler_build, command.file);
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
