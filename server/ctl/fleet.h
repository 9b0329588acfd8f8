// SPDX-License-Identifier: Apache-2.0
// `tensorctl fleet-key`: a pair of keys for hosts that share what they compile.
#ifndef TENSORD_SERVER_CTL_FLEET_H_
#define TENSORD_SERVER_CTL_FLEET_H_

#include <string>

namespace tensord::server {

struct FleetKeyCommand {
  std::string file;  // of the private key, to be made
  std::string name;  // of the key, for people
  bool json = false;
};

// Writes the private key and prints the public one as a line of a file of trust. Returns the exit
// code.
int MakeFleetKey(const FleetKeyCommand& command);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_FLEET_H_
