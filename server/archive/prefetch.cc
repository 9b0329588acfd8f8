// SPDX-License-Identifier: Apache-2.0
#include "server/archive/prefetch.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>

#include <utility>

#include "server/fleet/packed.h"
#include "server/jobs/job_lists.h"

namespace tensord::archive {
namespace {

// Nobody waits as a miss does.
constexpr absl::Duration kAnswer = absl::Seconds(10);

absl::Time UntilFetched() {
  return absl::Now() + kAnswer + fleet::TransferTime(fleet::kMostParcelBytes);
}

}  // namespace

absl::StatusOr<std::vector<fleet::Name>> NamesOfJob(fleet::Exchange& exchange,
                                                    const std::string& job) {
  TENSORD_ASSIGN_OR_RETURN(const v1::FleetManifest manifest,
                           exchange.GetManifest(server::JobName(job), absl::Now() + kAnswer));
  TENSORD_ASSIGN_OR_RETURN(const fleet::Parcel parcel,
                           exchange.GetParcel(manifest, fleet::Exchange::Has(), UntilFetched()));
  v1::JobList all;
  for (const fleet::Blob& blob : parcel.blobs) {
    v1::JobList list;
    if (list.ParseFromString(*blob.bytes)) all = server::Merge(all, list);
  }
  std::vector<fleet::Name> names;
  for (const v1::JobUse& use : all.used()) {
    if (auto name = ParseName(use.name()); name.ok()) names.push_back(*std::move(name));
  }
  return names;
}

absl::StatusOr<Prefetched> Prefetch(store::Store& store, fleet::Exchange& exchange,
                                    const std::vector<fleet::Name>& names) {
  Prefetched fetched;
  for (const fleet::Name& name : names) {
    const auto manifest = exchange.GetManifest(name, absl::Now() + kAnswer);
    absl::Status status = manifest.status();
    if (status.ok()) status = Take(store, exchange, name, *manifest, UntilFetched(), fetched);
    if (absl::IsNotFound(status)) {
      ++fetched.missing;
    } else if (absl::IsDataLoss(status) || absl::IsInvalidArgument(status)) {
      fetched.refused.push_back(absl::StrCat(name.Path(), ": ", status.message()));
    } else if (!status.ok()) {
      return status;
    }
  }
  return fetched;
}

}  // namespace tensord::archive
