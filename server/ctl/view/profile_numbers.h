// SPDX-License-Identifier: Apache-2.0
// What the numbers of a Profile come to. client/tensord/profiles/numbers.py says the same.
#ifndef TENSORD_SERVER_CTL_VIEW_PROFILE_NUMBERS_H_
#define TENSORD_SERVER_CTL_VIEW_PROFILE_NUMBERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensord/v1/profile.pb.h"

namespace tensord::server {

// The lower one of an even number; 0 of none.
uint64_t MedianOf(std::vector<uint64_t> values);
template <class Times>
uint64_t MedianOf(const Times& times) {
  return MedianOf(std::vector<uint64_t>(times.begin(), times.end()));
}

// The call that took the median of all: its parts add up, as medians of parts do not. -1: there is
// none.
int TypicalCall(const v1::Profile& profile);

// Nanoseconds of one kind of steps, of gaps, or outside of programs, in the typical call.
struct ProfilePart {
  std::string name;
  uint64_t nanoseconds;
  bool in_steps;  // rows have it
};
// In the order of a table; without those that took none in any call. They add up to the call's,
// unless parts overlap.
std::vector<ProfilePart> PartsOf(const v1::Profile& profile);
// Whether parts of a call take longer than the call: programs ran at the same time, in several
// threads or on several devices.
bool Overlap(const v1::Profile& profile);

// Nanoseconds in all calls.
uint64_t SumOf(const v1::ProfileRow& row);

// What a step must do in one call of the function, on average; in a second of its time, by the sums
// over all calls: it need not have run in each.
struct RowNumbers {
  double runs = 0;
  uint64_t nanoseconds = 0;     // the median of the calls
  double bytes = 0;             // 0: not known
  double bytes_per_second = 0;  // of them
  std::optional<double> limit;  // the part of its time that a copy of as many bytes takes
  double flops_per_second = 0;  // 0: not known
};
RowNumbers NumbersOf(const v1::Profile& profile, const v1::ProfileRow& row);

std::string ProgramName(const v1::ProfiledProgram& program);                // "forward 3f2a9c01"
std::string StepName(const v1::ProfileRow& row);                            // with its operators
std::string LineOf(const v1::Profile& profile, const v1::ProfileRow& row);  // empty: not known

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_VIEW_PROFILE_NUMBERS_H_
