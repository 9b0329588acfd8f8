// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/fleet.h"

#include <fmt/format.h>

#include <cstdio>

#include "server/ctl/client.h"
#include "server/fleet/keys.h"

namespace tensord::server {

int MakeFleetKey(const FleetKeyCommand& command) {
  const auto line = fleet::Keys::Make(command.file, command.name);
  if (!line.ok()) {
    std::fprintf(stderr, "tensorctl: %s\n", std::string(line.status().message()).c_str());
    return kExitError;
  }
  if (command.json) {
    fmt::print("{{\"key\": \"{}\"}}\n", line->substr(line->find(' ') + 1));
  } else {
    fmt::print("{}\n", *line);
  }
  return kExitOk;
}

}  // namespace tensord::server
