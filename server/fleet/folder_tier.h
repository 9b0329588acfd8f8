// SPDX-License-Identifier: Apache-2.0
// A folder that hosts share, over NFS say:
//
//   <root>/<kind>/ab/<hex>   an object; what the root's mode allows to whom, these allow too
//   <root>/tmp/              what is being written; renamed when it is whole
//
// Nothing is ever removed but leases: old files are the operator's (docs/fleet.md).
#ifndef TENSORD_SERVER_FLEET_FOLDER_TIER_H_
#define TENSORD_SERVER_FLEET_FOLDER_TIER_H_

#include <memory>
#include <string>
#include <vector>

#include "server/fleet/tier.h"

namespace tensord::fleet {

// "blob/abcd..." -> "blob/ab/abcd...": where an object lies below the root.
std::string FolderPath(const std::string& name);

// Makes no folder: one that is not there is not mounted, which passes.
std::unique_ptr<Tier> MakeFolderTier(std::string root);

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_FOLDER_TIER_H_
