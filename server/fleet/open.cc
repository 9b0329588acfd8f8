// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/open.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <utility>

#include "server/fleet/folder_tier.h"
#include "server/fleet/redis_tier.h"
#include "server/fleet/remote/remote_tier.h"

namespace tensord::fleet {

absl::StatusOr<std::unique_ptr<Tier>> OpenTier(const FleetConfig& config) {
  absl::string_view rest = config.url;
  if (absl::ConsumePrefix(&rest, "file://")) {
    if (!absl::StartsWith(rest, "/") || rest.size() < 2) {
      return absl::InvalidArgumentError("an absolute path is needed: file:///mnt/tensord");
    }
    return MakeFolderTier(std::string(rest));
  }
  if (absl::StartsWith(rest, "grpc")) {
    TENSORD_ASSIGN_OR_RETURN(RemoteOptions remote, ParseRemoteUrl(config.url));
    remote.ca = config.ca;
    remote.password_file = config.password_file;
    return MakeRemoteTier(std::move(remote));
  }
  if (!absl::StartsWith(rest, "redis")) {
    return absl::InvalidArgumentError(
        "a URL that begins with file://, redis://, rediss://, redis+unix://, grpc:// or grpcs:// "
        "is needed");
  }
  TENSORD_ASSIGN_OR_RETURN(RedisOptions redis, ParseRedisUrl(config.url));
  redis.endpoint.ca = config.ca;
  redis.password_file = config.password_file;
  redis.expiry = config.expiry;
  return MakeRedisTier(std::move(redis));
}

absl::StatusOr<std::unique_ptr<Fleet>> OpenFleet(const FleetConfig& config) {
  TENSORD_ASSIGN_OR_RETURN(std::unique_ptr<Tier> tier, OpenTier(config));
  TENSORD_ASSIGN_OR_RETURN(std::unique_ptr<Keys> keys, Keys::Open(config.sign_key, config.trust));
  return std::make_unique<Fleet>(config.options, std::move(tier), std::move(keys));
}

}  // namespace tensord::fleet
