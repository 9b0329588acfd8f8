// SPDX-License-Identifier: Apache-2.0
#include "server/config/fleet_settings.h"

namespace tensord::server {

fleet::FleetConfig FleetSettings(const Config& config) {
  fleet::FleetConfig fleet;
  fleet.url = config.fleet;
  fleet.sign_key = config.fleet_sign_key;
  fleet.trust = config.fleet_trust;
  fleet.password_file = config.fleet_password_file;
  fleet.ca = config.fleet_ca;
  fleet.expiry = absl::Seconds(config.fleet_expiry_seconds);
  fleet.options.answer = absl::Milliseconds(config.fleet_answer_ms);
  fleet.options.lease = absl::Seconds(config.fleet_lease_seconds);
  return fleet;
}

}  // namespace tensord::server
