// SPDX-License-Identifier: Apache-2.0
// Brings programs and frames from a fleet's tier into a store before anybody asks for them.
#ifndef TENSORD_SERVER_ARCHIVE_PREFETCH_H_
#define TENSORD_SERVER_ARCHIVE_PREFETCH_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "server/archive/kinds.h"
#include "server/fleet/exchange.h"
#include "server/store/store.h"

namespace tensord::archive {

// The names of what processes of a job used, as hosts of the fleet have said (server/jobs).
// NotFound: none did. DataLoss: what lies there is refused.
absl::StatusOr<std::vector<fleet::Name>> NamesOfJob(fleet::Exchange& exchange,
                                                    const std::string& job);

struct Prefetched : Taken {
  uint64_t missing = 0;              // names under which nothing lies, or not all any more
  std::vector<std::string> refused;  // and why
};
// Takes what there is. Errors are the tier's trouble, or the store's; what came before stays.
absl::StatusOr<Prefetched> Prefetch(store::Store& store, fleet::Exchange& exchange,
                                    const std::vector<fleet::Name>& names);

}  // namespace tensord::archive

#endif  // TENSORD_SERVER_ARCHIVE_PREFETCH_H_
