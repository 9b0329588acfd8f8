// SPDX-License-Identifier: Apache-2.0
// Where what a command makes goes: a file, or standard output.
#ifndef TENSORD_SERVER_CTL_OUTPUT_H_
#define TENSORD_SERVER_CTL_OUTPUT_H_

#include <string>

namespace tensord::server {

// Prints what went wrong and returns the exit code.
int WriteFile(const std::string& file, const std::string& text);
// The same; to standard output where `file` is empty.
int WriteText(const std::string& file, const std::string& text);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_OUTPUT_H_
