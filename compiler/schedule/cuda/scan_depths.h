// SPDX-License-Identifier: Apache-2.0
// The scans of a nest, and which of them need the prefixes that others give.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_SCAN_DEPTHS_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_SCAN_DEPTHS_H_

#include <map>
#include <utility>
#include <vector>

#include "compiler/schedule/nest.h"

namespace tensord::compiler {

struct NestScan {
  const NestMember* member;
  int inst;   // of the member's block
  int depth;  // 1: of values that need no scan; else one more than the deepest scan that they need
};

class ScanDepths {
 public:
  // Keeps pointers to the nest's members.
  explicit ScanDepths(const Nest& nest);

  const std::vector<NestScan>& scans() const { return scans_; }
  int deepest() const;  // 0 without scans
  // That of the deepest scan which the value of an instruction needs; 0: it needs none.
  int Of(const NestMember& member, int inst) const { return of_value_.at({&member, inst}); }

 private:
  std::vector<NestScan> scans_;
  std::map<std::pair<const NestMember*, int>, int> of_value_;
};

// Whether the rows or columns of a nest may be cut into parts that are scanned apart, once it is
// known what each part comes to: of one pass that reduces nothing. Products are not, for that of a
// long part may be infinite where a prefix with a zero before it is zero.
bool MayScanInParts(const Nest& nest);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_SCAN_DEPTHS_H_
