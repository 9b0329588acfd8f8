// SPDX-License-Identifier: Apache-2.0
#include "server/program/made_module.h"

namespace tensord::server {

v1::Module MadeModule(const v1::JitResult& result, int unit) {
  v1::Module module;
  module.set_kind(result.kind());
  if (unit < result.resources_size()) {
    const v1::UnitResources& resources = result.resources(unit);
    module.set_registers(resources.registers());
    module.set_spill_bytes(resources.spill_bytes());
    module.set_shared_bytes(resources.shared_bytes());
  }
  return module;
}

}  // namespace tensord::server
