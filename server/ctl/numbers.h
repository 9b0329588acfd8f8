// SPDX-License-Identifier: Apache-2.0
// What a command counted, for people or for programs.
#ifndef TENSORD_SERVER_CTL_NUMBERS_H_
#define TENSORD_SERVER_CTL_NUMBERS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tensord::server {

using Numbers = std::vector<std::pair<std::string, uint64_t>>;

std::string PlainNumber(uint64_t value);
// Below `title`, as `text` shows them; with `json` as an object of
// numbers, in whose names underscores are for spaces.
void PrintNumbers(const std::string& title, bool json, const Numbers& numbers,
                  std::string (*text)(uint64_t) = PlainNumber);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_NUMBERS_H_
