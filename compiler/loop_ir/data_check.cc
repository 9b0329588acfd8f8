// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop_ir/data_check.h"

#include <cstddef>

namespace tensord::compiler {

const DataCheckInfo& InfoOf(DataCheck check) {
  static constexpr DataCheckInfo kInfos[] = {
      {"nonzero", "checked_divisor", ""},
      {"probability", "checked_probability", "checked_probability"},
      {"target probability", "checked_target", "checked_probability"},
      {"drawn probability", "checked_drawn_probability", "checked_probability"},
      {"deviation", "checked_deviation", ""},
  };
  return kInfos[static_cast<size_t>(check)];
}

}  // namespace tensord::compiler
