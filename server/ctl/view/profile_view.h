// SPDX-License-Identifier: Apache-2.0
// A profile for people: as a table, and as flame graphs in forms that viewers read.
#ifndef TENSORD_SERVER_CTL_VIEW_PROFILE_VIEW_H_
#define TENSORD_SERVER_CTL_VIEW_PROFILE_VIEW_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tensord/v1/requests.pb.h"

namespace tensord::server {

// Where a call's time went, and its steps, the longest first; at most so many, 0: all.
std::string ProfileTable(const v1::Profile& profile, size_t most_rows);
// One line a profile.
std::string ProfileList(const v1::Profiles& profiles, int64_t now_unix);

// Names from the function inwards (function, program, line of the model, step), and the nanoseconds
// of the typical call at the last one.
struct ProfileStack {
  std::vector<std::string> names;
  uint64_t nanoseconds;
};
// Without those that took none, and without control characters. They add up to the call's, as its
// parts do.
std::vector<ProfileStack> StacksOf(const v1::Profile& profile);
// Folded stacks, as flamegraph.pl and inferno read them: a line a stack.
std::string FoldedStacks(const v1::Profile& profile);
// JSON for https://www.speedscope.app, which reads it in the browser.
std::string Speedscope(const v1::Profile& profile);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_VIEW_PROFILE_VIEW_H_
