// SPDX-License-Identifier: Apache-2.0
// A PutProfileRequest as it arrives: what is kept of it fits together, and can be shown.
#include <string>

#include "base/check.h"
#include "server/ctl/view/profile_numbers.h"
#include "server/ctl/view/profile_view.h"
#include "server/profiles/profile_log.h"
#include "tensord/v1/requests.pb.h"
#include "tests/fuzz/targets/target.h"

namespace tensord::fuzz {
namespace {

void Run(std::string_view input) {
  v1::PutProfileRequest request;
  if (!request.ParseFromArray(input.data(), static_cast<int>(input.size()))) return;
  server::ProfileLog log;
  const bool put = log.Put(request).ok();
  v1::Profiles kept;
  TENSORD_CHECK(log.Get({}, &kept).ok());
  TENSORD_CHECK(kept.profiles_size() == (put ? 1 : 0));
  if (!put) return;
  const v1::Profile& profile = kept.profiles(0).profile();
  TENSORD_CHECK(!server::ProfileTable(profile, 0).empty());
  TENSORD_CHECK(!server::ProfileList(kept, 0).empty());
  server::FoldedStacks(profile);
  TENSORD_CHECK(!server::Speedscope(profile).empty());
  uint64_t sum = 0;
  for (const server::ProfileStack& stack : server::StacksOf(profile)) sum += stack.nanoseconds;
  TENSORD_CHECK(sum >= profile.calls(server::TypicalCall(profile)), "a part of the call is lost");
}

}  // namespace

const Target kProfileTarget = {
    .name = "profile",
    .run = Run,
    .message = []() -> const google::protobuf::Message* {
      return &v1::PutProfileRequest::default_instance();
    },
};

}  // namespace tensord::fuzz
