// SPDX-License-Identifier: Apache-2.0
// What a program key was made of, in words: kept in the detail of every program, so that a miss can
// name the fields in which it differs from the nearest program.
#ifndef TENSORD_SERVER_COMPILE_KEY_CONTENTS_H_
#define TENSORD_SERVER_COMPILE_KEY_CONTENTS_H_

#include <vector>

#include "server/compile/key_parts.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::server {

// A key as those see it who explain a miss.
struct DescribedKey {
  KeyParts parts;
  v1::ProgramDetail detail;  // only what is said of the key: its contents, the toolchain, the build
};

DescribedKey DescribeKey(const v1::Graph& graph, const v1::Target& target,
                         const v1::CompileOptions& options, const ProgramKey& key);

// Fields in which the keys differ. A part of which a digest differs and no field that is known
// (`stored.detail` may lack its contents) is named as a whole, without values; of results, which
// follow from inputs and operators, only where both are the same.
std::vector<v1::KeyDifference> DifferencesOf(const DescribedKey& wanted,
                                             const DescribedKey& stored);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_KEY_CONTENTS_H_
