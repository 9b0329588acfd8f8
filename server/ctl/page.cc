// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/commands.h"

namespace tensord::server {

int OpenPage(const Client& client, const std::string& address) {
  v1::OpenPageRequest request;
  request.set_address(address);
  v1::OpenPageReply reply;
  if (const int code = Ask(client, request, &reply); code != kExitOk) return code;
  if (client.json) return PrintJson(reply), kExitOk;
  Print(reply.url() + "\n");
  return kExitOk;
}

}  // namespace tensord::server
