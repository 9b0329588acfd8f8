// SPDX-License-Identifier: Apache-2.0
// The content-addressed storage of a server: small blobs in batches, large ones as streams.
#ifndef TENSORD_SERVER_FLEET_REMOTE_BLOBS_H_
#define TENSORD_SERVER_FLEET_REMOTE_BLOBS_H_

#include <absl/time/time.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "server/fleet/remote/session.h"

namespace tensord::fleet {

// Of SHA-256, as the API writes it.
reapi::Digest DigestOf(std::string_view bytes);

// The bytes of those that the server has, by hash; as it gives them, but no more than a byte behind
// the digest's size.
absl::StatusOr<std::map<std::string, std::string>> ReadBlobs(
    const RemoteSession& session, const std::vector<reapi::Digest>& digests, absl::Time deadline);

struct RemoteBlob {
  reapi::Digest digest;
  std::string_view bytes;
};
absl::Status WriteBlobs(const RemoteSession& session, const std::vector<RemoteBlob>& blobs,
                        absl::Time deadline);
// Asks first which the server has not.
absl::Status WriteMissingBlobs(const RemoteSession& session, const std::vector<RemoteBlob>& blobs,
                               absl::Time deadline);

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_REMOTE_BLOBS_H_
