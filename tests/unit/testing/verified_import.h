// SPDX-License-Identifier: Apache-2.0
// A captured graph as passes behind import get it.
#ifndef TENSORD_TESTS_UNIT_TESTING_VERIFIED_IMPORT_H_
#define TENSORD_TESTS_UNIT_TESTING_VERIFIED_IMPORT_H_

#include "base/status.h"
#include "compiler/graph/verify.h"
#include "compiler/import/import.h"

namespace tensord::testing {

inline absl::StatusOr<compiler::Graph> VerifiedImport(const v1::Graph& from) {
  TENSORD_ASSIGN_OR_RETURN(compiler::Graph graph, compiler::Import(from));
  TENSORD_RETURN_IF_ERROR(compiler::VerifyGraph(graph));
  return graph;
}

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_VERIFIED_IMPORT_H_
