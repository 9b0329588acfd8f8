// SPDX-License-Identifier: Apache-2.0
// What the configuration says of compiles: of the daemon's, and of `tensorctl compile`, which makes
// the same programs under the same keys.
#ifndef TENSORD_SERVER_CONFIG_SERVICE_OPTIONS_H_
#define TENSORD_SERVER_CONFIG_SERVICE_OPTIONS_H_

#include <string>

#include "server/compile/compile_service.h"
#include "server/config/config.h"
#include "server/store/store.h"

namespace tensord::server {

// Where workers make the kernels of a store.
std::string WorkFolder(const store::Store& store);

// `spare_folder`: instead of the work folder while its disk is full; empty: none.
ServiceOptions MakeServiceOptions(const Config& config, store::Store& store,
                                  const std::string& spare_folder);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CONFIG_SERVICE_OPTIONS_H_
