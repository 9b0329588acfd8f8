// SPDX-License-Identifier: Apache-2.0
// What lets a reader in: other users of the host reach the page's port, too.
#ifndef TENSORD_SERVER_UI_TOKEN_H_
#define TENSORD_SERVER_UI_TOKEN_H_

#include <string>
#include <string_view>

namespace tensord::server {

// Of 32 random bytes, in hex digits.
std::string MakeToken();
// Whether the header Authorization brings it: "Bearer TOKEN". Takes as long for any of that length.
bool Brings(std::string_view authorization, std::string_view token);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_UI_TOKEN_H_
