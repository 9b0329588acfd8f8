// SPDX-License-Identifier: Apache-2.0
// Requests as events of the Trace Event Format, which chrome://tracing and Perfetto read.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#ifndef TENSORD_SERVER_CTL_VIEW_CHROME_TRACE_H_
#define TENSORD_SERVER_CTL_VIEW_CHROME_TRACE_H_

#include <string>

#include "tensord/v1/requests.pb.h"

namespace tensord::server {

// JSON. A process of the format is a process, and a thread of it a track of its spans; a span that
// several requests have is one event. Times are in microseconds from the first span on.
std::string ChromeTrace(const v1::Traces& traces);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_VIEW_CHROME_TRACE_H_
