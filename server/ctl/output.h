// SPDX-License-Identifier: Apache-2.0
// Where what a command makes goes: a file, or standard output.
#ifndef TENSORD_SERVER_CTL_OUTPUT_H_
#define TENSORD_SERVER_CTL_OUTPUT_H_

#include <string>

namespace tensord::server {

// To standard output where `file` is empty. Prints what went wrong and returns the exit code.
int WriteText(const std::string& file, const std::string& text);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_OUTPUT_H_
