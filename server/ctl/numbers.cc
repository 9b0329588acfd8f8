// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/numbers.h"

#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include "server/ctl/view/table.h"

namespace tensord::server {

std::string PlainNumber(uint64_t value) { return fmt::format("{}", value); }

void PrintNumbers(const std::string& title, bool json, const Numbers& numbers,
                  std::string (*text)(uint64_t)) {
  if (json) {
    std::vector<std::string> fields;
    for (const auto& [name, value] : numbers) {
      fields.push_back(fmt::format("\"{}\": {}", absl::StrReplaceAll(name, {{" ", "_"}}), value));
    }
    fmt::print("{{{}}}\n", fmt::join(fields, ", "));
    return;
  }
  Table table({title, ">"});
  for (const auto& [name, value] : numbers) table.Add({name, text(value)});
  fmt::print("{}", table.ToString());
}

}  // namespace tensord::server
