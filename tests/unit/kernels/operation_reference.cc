// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/operation_reference.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/check.h"

namespace tensord::testing {
namespace {

// What the reference is computed in: integers that wrap as the type does, floats with more digits.
template <class T>
using WideOf = std::conditional_t<
    std::is_floating_point_v<T>, long double,
    std::conditional_t<sizeof(T) == 8 && !std::is_signed_v<T>, uint64_t,
                       std::conditional_t<std::is_same_v<T, bool>, bool, int64_t>>>;

// Operands and results of one operation, by a function of wide operands.
template <class T, class Got, class First>
Expected<T, Got> Evaluate(std::string_view name, int arity, const Domain& domain,
                          const Tolerance& tolerance,
                          typename Expected<T, Got>::Wide (*reference)(WideOf<First>, WideOf<T>,
                                                                       WideOf<T>)) {
  const int count = std::is_floating_point_v<T> ? 200000 : 2000;
  Expected<T, Got> expected = {
      std::string(name), arity, OperandsOf<T>(arity, domain, count), {}, tolerance};
  const auto& [first, second, third] = expected.operands;
  for (size_t i = 0; i < first.size(); ++i) {
    expected.results.push_back(
        reference(WideOf<First>(First(first[i])), WideOf<T>(second[i]), WideOf<T>(third[i])));
  }
  return expected;
}

template <class T, class Got>
Expected<T, Got> FindAndEvaluate(std::string_view name) {
#define TENSORD_OP(op, arity, types, result, cost, reference, domain, tolerance)              \
  if constexpr (Takes<T>(Types::types) && std::is_same_v<Got, ResultOf<T, Result::result>>) { \
    using First = FirstOperand<T, Result::result>;                                            \
    if (name == #op) {                                                                        \
      return Evaluate<T, Got, First>(                                                         \
          name, arity, domain, tolerance,                                                     \
          [](WideOf<First> a, [[maybe_unused]] WideOf<T> b, [[maybe_unused]] WideOf<T> c) ->  \
          typename Expected<T, Got>::Wide {                                                   \
            return static_cast<typename Expected<T, Got>::Wide>(reference);                   \
          });                                                                                 \
    }                                                                                         \
  }
#include "compiler/loop_ir/ops.def"
  CheckFailed(__FILE__, __LINE__, "ops.def", std::string(name) + " has not these types");
}

template <class T>
std::string Text(const Operands<T>& operands, size_t i, int arity) {
  const T all[] = {operands.first[i], operands.second[i], operands.third[i]};
  std::string text;
  for (int k = 0; k < arity; ++k) text += (k > 0 ? ", " : "") + std::to_string(all[k]);
  return text;
}

}  // namespace

template <class T, class Got>
void Expected<T, Got>::Check(const Got* got, int lanes) const {
  constexpr bool kDouble = std::is_same_v<T, double>;
  const double absolute = kDouble ? tolerance.absolute64 : tolerance.absolute;
  double worst = 0;
  std::string at;
  for (size_t i = 0; i < results.size(); ++i) {
    const Wide want = results[i];
    double error;
    if constexpr (std::is_floating_point_v<Got>) {
      error = UlpError(got[i], want);
      if (std::fabs(got[i] - want) <= absolute * std::max(1.0L, std::fabs(want))) error = 0;
    } else {
      error = got[i] == want ? 0 : 1e30;
    }
    if (error <= worst) continue;
    worst = error;
    at = Text(operands, i, arity) + ") is " + std::to_string(got[i]) + ", not " +
         std::to_string(want);
  }
  EXPECT_LE(worst, kDouble ? tolerance.ulps64 : tolerance.ulps)
      << name << "(" << at << " in " << sizeof(T) << " bytes, " << lanes << " lanes";
  if (std::getenv("TENSORD_SHOW_ULPS") != nullptr && std::is_floating_point_v<T>) {
    std::printf("%-12s %zu bytes, %2d lanes: %.3f ulp (%s\n", name.c_str(), sizeof(T), lanes, worst,
                at.c_str());
  }
}

template <class T, class Got>
const Expected<T, Got>& ExpectedOf(std::string_view name) {
  static Expected<T, Got> last;
  if (last.name != name) last = FindAndEvaluate<T, Got>(name);
  return last;
}

#define INSTANTIATE(T, Got)         \
  template struct Expected<T, Got>; \
  template const Expected<T, Got>& ExpectedOf(std::string_view);
#define INSTANTIATE_RESULTS(T) \
  INSTANTIATE(T, T)            \
  INSTANTIATE(T, bool)
INSTANTIATE_RESULTS(float)
INSTANTIATE_RESULTS(double)
INSTANTIATE_RESULTS(int8_t)
INSTANTIATE_RESULTS(uint8_t)
INSTANTIATE_RESULTS(int16_t)
INSTANTIATE_RESULTS(uint16_t)
INSTANTIATE_RESULTS(int32_t)
INSTANTIATE_RESULTS(uint32_t)
INSTANTIATE_RESULTS(int64_t)
INSTANTIATE_RESULTS(uint64_t)
INSTANTIATE(bool, bool)
INSTANTIATE(int64_t, float)

}  // namespace tensord::testing
