// SPDX-License-Identifier: Apache-2.0
#include "server/frames/frame_place.h"

#include <absl/strings/str_cat.h>

#include "base/sha256.h"

namespace tensord::server {

std::string DigestOf(const v1::FrameEnvironment& environment) {
  return Sha256Fields()
      .Add(absl::StrCat(environment.format()))
      .Add(environment.python())
      .Add(environment.torch())
      .Add(environment.options())
      .Finish();
}

std::string PlaceOf(const std::string& code, const std::string& environment) {
  return code + environment;
}

store::FrameFacts FactsOf(const v1::Frame& frame, const std::string& behind) {
  store::FrameFacts facts;
  facts.code = frame.code().digest();
  facts.environment = DigestOf(frame.environment());
  facts.module = frame.code().module();
  facts.qualified_name = frame.code().qualified_name();
  facts.guards = static_cast<uint32_t>(frame.guards_size());
  facts.graphs = static_cast<uint32_t>(frame.graphs_size());
  facts.inlined = static_cast<uint32_t>(frame.inlined_size());
  if (!behind.empty() && behind != facts.code) facts.behind = {behind};
  return facts;
}

}  // namespace tensord::server
