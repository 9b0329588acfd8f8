// SPDX-License-Identifier: Apache-2.0
// The tests Operation.NAME, one for each line of compiler/loop_ir/ops.def. There are a thousand
// pairs of an operation and a type, so what is compiled for a pair decides how long these tests
// take to build: it is the prelude's function alone, whose address a check gets that is compiled
// once per type.
#ifndef TENSORD_TESTS_UNIT_KERNELS_OPERATION_TESTS_H_
#define TENSORD_TESTS_UNIT_KERNELS_OPERATION_TESTS_H_

#include <gtest/gtest.h>

#include <tuple>
#include <type_traits>

#include "tests/unit/testing/scalar_reference.h"

namespace tensord::testing {

template <Types kTypes, class... T>
auto Filter(std::tuple<T...>)
    -> decltype(std::tuple_cat(
        std::conditional_t<Takes<T>(kTypes), std::tuple<T>, std::tuple<>>()...));
// A tuple of the types that operations compute in and that kTypes has.
template <Types kTypes>
using TypesIn =
    decltype(Filter<kTypes>(std::tuple<float, double, int8_t, uint8_t, int16_t, uint16_t, int32_t,
                                       uint32_t, int64_t, uint64_t, bool>()));

// A pointer to a prelude's function of kArity operands of T. Vec: its vectors, as Vec<T>.
template <template <class> class Vec, class T, Result kResult, int kArity,
          class Got = Vec<ResultOf<T, kResult>>, class First = Vec<FirstOperand<T, kResult>>>
using FunctionOf = std::conditional_t<
    kArity == 1, Got (*)(First),
    std::conditional_t<kArity == 2, Got (*)(First, Vec<T>), Got (*)(First, Vec<T>, Vec<T>)>>;

// Of a prelude's overloaded `function`, the one of type Function:
// `overloads.operator()<Function>()`.
#define TENSORD_OVERLOADS(function) []<class Function>() consteval -> Function { return function; }

template <class Fixture>
class OperationTest : public Fixture {
 public:
  explicit OperationTest(void (*check)()) : check_(check) {}

 private:
  void TestBody() override { check_(); }

  void (*check_)();
};

// What TEST_F(Operation, name) does, without a class for each.
template <class Fixture>
void RegisterOperation(const char* name, void (*check)()) {
  ::testing::RegisterTest("Operation", name, nullptr, nullptr, __FILE__, __LINE__,
                          [check]() -> Fixture* { return new OperationTest<Fixture>(check); });
}

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_KERNELS_OPERATION_TESTS_H_
