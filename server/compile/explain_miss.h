// SPDX-License-Identifier: Apache-2.0
// Why a program is not stored, and which stored one is nearest to it. Asked once a compile, on its
// thread, so no look-up waits for it; it reads a bounded number of the index's rows, whatever the
// store holds, and the record of the nearest.
#ifndef TENSORD_SERVER_COMPILE_EXPLAIN_MISS_H_
#define TENSORD_SERVER_COMPILE_EXPLAIN_MISS_H_

#include <string>

#include "server/compile/key_contents.h"
#include "server/statistics/miss_reasons.h"
#include "server/store/store.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::server {

struct ExplainedMiss {
  MissReason reason = MissReason::kNew;
  v1::ProgramMiss miss;  // key, reason, nearest and differences
};

// `key` is the digest that was looked for in vain. A store whose index cannot be read knows nothing
// near: kUnknown.
ExplainedMiss ExplainMiss(store::Store& store, const std::string& key, const DescribedKey& wanted);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_EXPLAIN_MISS_H_
