// SPDX-License-Identifier: Apache-2.0
// Rows of the index's table of programs, for the files that read it.
#ifndef TENSORD_SERVER_STORE_PROGRAM_COLUMNS_H_
#define TENSORD_SERVER_STORE_PROGRAM_COLUMNS_H_

#include "server/store/index.h"

namespace tensord::store {

#define TENSORD_PROGRAM_COLUMNS \
  "key,label,target,nodes,kernels,externs,compile_ns,bytes,hits,created_ms,used_ms,compared"

inline ProgramRow ProgramRowOf(const Query& query) {
  ProgramRow row;
  row.key = query.Bytes(0);
  row.facts.label = query.Bytes(1);
  row.facts.target = query.Bytes(2);
  row.facts.nodes = static_cast<uint32_t>(query.Int(3));
  row.facts.kernels = static_cast<uint32_t>(query.Int(4));
  row.facts.externs = static_cast<uint32_t>(query.Int(5));
  row.facts.compile_nanoseconds = static_cast<uint64_t>(query.Int(6));
  row.bytes = static_cast<uint64_t>(query.Int(7));
  row.hits = static_cast<uint64_t>(query.Int(8));
  row.created_ms = query.Int(9);
  row.used_ms = query.Int(10);
  row.facts.traits.compared = query.Bytes(11);
  return row;
}

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_PROGRAM_COLUMNS_H_
