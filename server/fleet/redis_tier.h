// SPDX-License-Identifier: Apache-2.0
// Redis 7 as a tier. An object is a key "tensord:<kind>:<hex>", and of what has more than a piece
// the next ones with ":1", ":2" behind it; a manifest is put when all that it names is there.
#ifndef TENSORD_SERVER_FLEET_REDIS_TIER_H_
#define TENSORD_SERVER_FLEET_REDIS_TIER_H_

#include <absl/time/time.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "server/fleet/connection.h"
#include "server/fleet/tier.h"

namespace tensord::fleet {

struct RedisOptions {
  Endpoint endpoint;
  std::string user, password;                // empty: the default user's, none
  std::string password_file;                 // read at each connection; beats the password
  std::string database;                      // a number; empty: 0
  absl::Duration expiry = absl::Hours(720);  // of what is put; 0: never
};

// redis://user:password@host:port/database; rediss:// with TLS; redis+unix://user:password@/path of
// a socket. What stands for itself in a URL is written %XX. InvalidArgument says what is wrong.
absl::StatusOr<RedisOptions> ParseRedisUrl(const std::string& url);

// Connects when it is first asked, and again when a connection is lost.
std::unique_ptr<Tier> MakeRedisTier(RedisOptions options);

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_REDIS_TIER_H_
