// SPDX-License-Identifier: Apache-2.0
// What the configuration says of the fleet.
#ifndef TENSORD_SERVER_CONFIG_FLEET_SETTINGS_H_
#define TENSORD_SERVER_CONFIG_FLEET_SETTINGS_H_

#include "server/config/config.h"
#include "server/fleet/open.h"

namespace tensord::server {

fleet::FleetConfig FleetSettings(const Config& config);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CONFIG_FLEET_SETTINGS_H_
