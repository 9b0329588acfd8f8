// SPDX-License-Identifier: Apache-2.0
// What the operations of compiler/loop_ir/ops.def are to give. A library of its own, compiled once
// for all instruction sets: the references of all operations in all types take a compiler long.
#ifndef TENSORD_TESTS_UNIT_KERNELS_OPERATION_REFERENCE_H_
#define TENSORD_TESTS_UNIT_KERNELS_OPERATION_REFERENCE_H_

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tests/unit/kernels/operands.h"

namespace tensord::testing {

// The operands that one operation is tried with in type T, and its results there; Got: their type.
template <class T, class Got>
struct Expected {
  // Floats with more digits than Got has.
  using Wide = std::conditional_t<std::is_floating_point_v<Got>, long double, Got>;

  std::string name;
  int arity;
  Operands<T> operands;
  std::vector<Wide> results;
  Tolerance tolerance;

  // EXPECTs that results which were computed by `lanes` at a time are as near as the tolerance
  // says; got[i]: of operands i. TENSORD_SHOW_ULPS=1 prints how far the farthest float is off.
  void Check(const Got* got, int lanes) const;
};

// Of the operation `name` of ops.def, which takes T and gives Got. The last one is kept.
template <class T, class Got>
const Expected<T, Got>& ExpectedOf(std::string_view name);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_KERNELS_OPERATION_REFERENCE_H_
