// SPDX-License-Identifier: Apache-2.0
// Manifests and blobs over a tier, verified: what comes out was signed by a key that is accepted,
// for the name that was asked for, and has the digests that were signed. Blocks; knows nothing of
// waiting callers, breakers or queues (fleet.h).
//
// Statuses: NotFound, and DataLoss for what was there but is refused; everything else is the
// tier's trouble (IsTrouble).
#ifndef TENSORD_SERVER_FLEET_EXCHANGE_H_
#define TENSORD_SERVER_FLEET_EXCHANGE_H_

#include <absl/time/time.h>

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/fleet/keys.h"
#include "server/fleet/packed.h"
#include "server/fleet/sealed.h"
#include "server/fleet/tier.h"

namespace tensord::fleet {

struct Blob {
  std::string sha256;
  std::string note;                  // opaque
  std::optional<std::string> bytes;  // none: it was not fetched, for the asker has it
};

// What lies under one name, and for who puts it what of it is to lie under others.
struct Parcel {
  struct Part {
    Name name;
    std::string content;
    std::string blob;  // the digest of one of the parcel's
  };
  std::optional<std::string> content;
  std::vector<Blob> blobs;  // in no order
  bool complete = true;     // no blob has gone or been refused; those are left out
  int refused = 0;
  std::vector<Part> parts;
};

inline bool IsTrouble(const absl::Status& status) {
  return !status.ok() && !absl::IsNotFound(status) && !absl::IsDataLoss(status);
}

// How long so many bytes may take: whoever is slower than 4 MiB/s is of no use.
absl::Duration TransferTime(uint64_t bytes);

class Exchange {
 public:
  Exchange(Tier* tier, Keys* keys) : tier_(tier), keys_(keys) {}

  absl::StatusOr<v1::FleetManifest> GetManifest(const Name& name, absl::Time deadline);
  // What a manifest names, but for the bytes of blobs that the asker `has`. All of it is asked for
  // at once.
  using Has = std::function<bool(const std::string& sha256)>;
  absl::StatusOr<Parcel> GetParcel(const v1::FleetManifest& manifest, const Has& has,
                                   absl::Time deadline);

  // What is to be put, packed: its objects, of which the manifest's is the last, behind those of
  // its parts.
  std::vector<Object> PackParcel(const Name& name, const Parcel& parcel);
  // The same of a manifest that gets one more blob as its last. The first go when there are more
  // than `most`.
  std::vector<Object> PackMore(const Name& name, v1::FleetManifest manifest, const Blob& blob,
                               int most);
  absl::Status Put(const std::vector<Object>& objects, absl::Time deadline);

  // The right to make what lies under a name, for a while. Returns the token with which it is given
  // back; nothing: somebody of the fleet has it, whose token `holder` gets.
  absl::StatusOr<std::optional<std::string>> Claim(const Name& name, absl::Duration lifetime,
                                                   absl::Time deadline,
                                                   std::string* holder = nullptr);
  absl::Status Release(const Name& name, const std::string& token, absl::Time deadline);

  uint64_t bytes_in() const { return bytes_in_; }
  uint64_t bytes_out() const { return bytes_out_; }

 private:
  Tier* const tier_;
  Keys* const keys_;
  std::atomic<uint64_t> bytes_in_{0};
  std::atomic<uint64_t> bytes_out_{0};
};

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_EXCHANGE_H_
