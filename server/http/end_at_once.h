// SPDX-License-Identifier: Apache-2.0
// Ending a server of CivetWeb without its pause.
#ifndef TENSORD_SERVER_HTTP_END_AT_ONCE_H_
#define TENSORD_SERVER_HTTP_END_AT_ONCE_H_

#include <functional>
#include <string>

namespace tensord::server {

// Calls `end`, which stops a server that listens there. The server looks every two seconds whether
// it is to end, and when somebody comes: a daemon that is told to stop would not wait so long, so
// it is called meanwhile. `host`: in numbers.
void EndAtOnce(const std::string& host, int port, const std::function<void()>& end);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_HTTP_END_AT_ONCE_H_
