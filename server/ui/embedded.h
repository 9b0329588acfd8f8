// SPDX-License-Identifier: Apache-2.0
// The files of server/ui/page, embedded at build.
#ifndef TENSORD_SERVER_UI_EMBEDDED_H_
#define TENSORD_SERVER_UI_EMBEDDED_H_

#include <span>
#include <string_view>

namespace tensord::server {

struct PageFile {
  std::string_view path;  // "/app.js"
  std::string_view contents;
};

std::span<const PageFile> PageFiles();

}  // namespace tensord::server

#endif  // TENSORD_SERVER_UI_EMBEDDED_H_
