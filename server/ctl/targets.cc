// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/targets.h"

#include <absl/strings/str_cat.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "server/ahead/targets.h"
#include "server/ctl/client.h"
#include "server/ctl/output.h"
#include "server/ctl/store.h"
#include "server/ctl/view/table.h"
#include "server/rpc/address.h"

namespace tensord::server {
namespace {

int PrintList(const SeenTargets& seen, bool json) {
  Table table({"target", ">programs", "has"});
  auto list = nlohmann::json::array();
  for (const SeenTarget& one : seen.List()) {
    const std::string name = TargetName(one.target), has = DescribeTarget(one.target);
    table.Add({name, absl::StrCat(one.programs), has});
    list.push_back({{"name", name}, {"programs", one.programs}, {"has", has}});
  }
  Print(json ? list.dump() + "\n" : table.ToString());
  return kExitOk;
}

}  // namespace

CLI::App* AddTargets(CLI::App& app, TargetsCommand* targets) {
  CLI::App* const added = app.add_subcommand(
      "targets", "for what stored programs were compiled, by names that --target knows");
  CLI::Option* const name =
      added->add_option("NAME", targets->name, "only write this one, as a file");
  added->add_option("--output,-o", targets->file, "the file (standard output)")->needs(name);
  targets->store = DefaultStore();
  added->add_option("--store", targets->store, "the store's folder")->envname("TENSORD_STORE");
  return added;
}

int Targets(const TargetsCommand& command) {
  const auto store = OpenStore(command.store, /*limit_bytes=*/0);
  if (store == nullptr) return kExitError;
  SeenTargets seen;
  if (const absl::Status read = seen.AddStored(*store); !read.ok()) return Fail(read);
  if (command.name.empty()) return PrintList(seen, command.json);
  const auto target = seen.Find(command.name);
  if (!target.ok()) return Fail(target.status());
  return WriteText(command.file, TargetText(*target));
}

}  // namespace tensord::server
