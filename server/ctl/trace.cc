// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string>

#include "server/ctl/commands.h"
#include "server/ctl/output.h"
#include "server/ctl/view/chrome_trace.h"

namespace tensord::server {

int Trace(const Client& client, const TraceCommand& command) {
  v1::GetTracesRequest request;
  if (!command.key.empty() && !ReadKey(command.key, request.mutable_key_prefix())) {
    return kExitUsage;
  }
  request.set_job(command.job);
  request.set_limit(command.limit);
  v1::Traces traces;
  if (const int code = Ask(client, request, &traces); code != kExitOk) return code;
  if (client.json) return PrintJson(traces), kExitOk;
  if (const int code = WriteText(command.file, ChromeTrace(traces) + "\n");
      code != kExitOk || command.file.empty()) {
    return code;
  }
  int spans = 0;
  for (const v1::RequestTrace& trace : traces.requests()) spans += trace.spans_size();
  Print(fmt::format("{}: {} requests, {} spans; https://ui.perfetto.dev opens it\n", command.file,
                    traces.requests_size(), spans));
  return kExitOk;
}

}  // namespace tensord::server
