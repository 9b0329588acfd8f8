// SPDX-License-Identifier: Apache-2.0
// The page asks what the RPCs ask.
#ifndef TENSORD_SERVER_DAEMON_PAGE_QUESTIONS_H_
#define TENSORD_SERVER_DAEMON_PAGE_QUESTIONS_H_

#include "server/compile/compile_service.h"
#include "server/frames/frame_service.h"
#include "server/ui/page_source.h"

namespace tensord::server {

// Both outlive it. Looking is no work: it keeps no daemon from its idle exit.
PageSource AskServices(CompileService* service, FrameService* frames);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_PAGE_QUESTIONS_H_
