// SPDX-License-Identifier: Apache-2.0
// Aligned columns for people.
#ifndef TENSORD_SERVER_CTL_VIEW_TABLE_H_
#define TENSORD_SERVER_CTL_VIEW_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tensord::server {

class Table {
 public:
  // A header that begins with '>' is of a column of numbers, aligned to the right.
  explicit Table(std::vector<std::string> headers) { rows_.push_back(std::move(headers)); }
  // What jobs say is in cells, too: control characters are blanks in it.
  void Add(std::vector<std::string> cells);
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string HumanBytes(uint64_t bytes);              // "1.5 MiB"
std::string HumanMeanBytes(double bytes);            // the same of any number
std::string HumanNanoseconds(uint64_t nanoseconds);  // "12.3 ms"
std::string HumanAge(int64_t seconds);               // "3 h"

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_VIEW_TABLE_H_
