// SPDX-License-Identifier: Apache-2.0
// What the page's scripts ask for, below /api/: replies of RPCs as JSON, with the names of the
// protos.
#ifndef TENSORD_SERVER_UI_API_H_
#define TENSORD_SERVER_UI_API_H_

#include "server/http/http_server.h"
#include "server/ui/history.h"
#include "server/ui/page_source.h"

namespace tensord::server {

// 200: JSON. Else {"error": what is wrong}: 400 for what the reader asked wrong, 404 for what is
// not there, 503 and 500 for the daemon's own reasons.
//
//   /api/stats
//   /api/history?since=MS                          History::ToJson
//   /api/programs?search=&order=&skip=&limit=      a list has at most 500 entries
//   /api/program?key=HEX                           its plan without buffers and arguments, no
//   sources /api/kernel?key=HEX&number=N                   one of its sources
//   /api/frames?search=&skip=&limit=
//   /api/frame?key=HEX                             without bytecode, and what nodes were given
//   /api/misses?key=HEX&job=&limit=
//   /api/jobs
//   /api/job?name=
//   /api/profiles?job=                             without their rows
//   /api/profile?id=N
HttpReply AnswerApi(const PageSource& source, const History& history, const HttpRequest& request);

HttpReply JsonError(int status, const std::string& message);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_UI_API_H_
