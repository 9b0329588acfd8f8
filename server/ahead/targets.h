// SPDX-License-Identifier: Apache-2.0
// Targets as people name them. Program keys hold a target whole, with its caches, registers and
// multiprocessors, so that no bare "sm_90" is one: a target comes from a program that a job asked
// for, or from a file that was written of such a one. There is no list of GPUs by their makers'
// names, which stand for variants with other numbers.
#ifndef TENSORD_SERVER_AHEAD_TARGETS_H_
#define TENSORD_SERVER_AHEAD_TARGETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/store/store.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::server {

// "sm_90-4f1c22d0", "avx512-90ab12cd": the architecture, and the beginning of the digest of all of
// it. The same on every host.
std::string TargetName(const v1::Target& target);
// What it has, for people: "132 multiprocessors, 227.0 KiB shared, ...".
std::string DescribeTarget(const v1::Target& target);

// As a file: protobuf's text, which ReadTarget reads.
std::string TargetText(const v1::Target& target);
// InvalidArgument names the line, or the field that is missing: each must be there, for programs
// that are made for other numbers are asked for by nobody. `where`: the file's name.
absl::StatusOr<v1::Target> ReadTarget(const std::string& text, const std::string& where);

// One for which programs were compiled.
struct SeenTarget {
  v1::Target target;
  uint64_t programs = 0;
};

// Those of programs, each once.
class SeenTargets {
 public:
  void Add(const v1::Target& target);
  // Those of all programs that are stored.
  absl::Status AddStored(store::Store& store);

  // Those with most programs first.
  std::vector<SeenTarget> List() const;
  // By its name, by the beginning of that, or by the architecture where one alone has been seen of
  // that. NotFound, FailedPrecondition: none is so called, or several are; with what to do.
  absl::StatusOr<v1::Target> Find(const std::string& name) const;
  // What --target says: a file, or one of these.
  absl::StatusOr<v1::Target> FindOrRead(const std::string& word) const;

 private:
  std::vector<SeenTarget> seen_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_AHEAD_TARGETS_H_
