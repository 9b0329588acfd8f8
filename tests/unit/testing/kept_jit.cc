// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/testing/kept_jit.h"

#include "tests/unit/testing/kept_results.h"

namespace tensord::testing {
namespace {

// What a unit of the result says, as a result of its own.
v1::JitResult ResultOf(const v1::JitResult& all, int unit) {
  v1::JitResult one;
  one.set_kind(all.kind());
  one.add_binaries(all.binaries(unit));
  *one.add_resources() = all.resources(unit);
  return one;
}

}  // namespace

absl::StatusOr<v1::JitResult> KeptJit(const v1::JitJob& job, const jit::JitConfig& config) {
  TENSORD_ASSIGN_OR_RETURN(const jit::ToolchainInfo toolchain,
                           jit::FindToolchain(job.target(), config));
  const KeptResults kept("jit");
  const std::string target = job.target().SerializeAsString();
  v1::JitJob missing;
  *missing.mutable_target() = job.target();
  std::vector<std::string> digests;
  std::vector<int> numbers;  // of the missing units, in the job
  v1::JitResult result;
  for (int i = 0; i < job.units_size(); ++i) {
    const v1::KernelUnit& unit = job.units(i);
    digests.push_back(
        Sha256Fields().Add(toolchain.id).Add(target).Add(unit.SerializeAsString()).Finish());
    v1::JitResult one;
    if (const auto text = kept.Find(digests.back()); !text || !one.ParseFromString(*text)) {
      *missing.add_units() = unit;
      numbers.push_back(i);
      one.add_binaries();
      one.add_resources();
    } else {
      result.set_kind(one.kind());
    }
    result.add_binaries(one.binaries(0));
    *result.add_resources() = one.resources(0);
  }
  if (numbers.empty()) return result;
  TENSORD_ASSIGN_OR_RETURN(const v1::JitResult made, jit::Jit(missing, config));
  result.set_kind(made.kind());
  *result.mutable_stages() = made.stages();
  for (const v1::UnitFailure& failure : made.failures()) {
    v1::UnitFailure& added = *result.add_failures();
    added = failure;
    added.set_unit(numbers[failure.unit()]);
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int unit = numbers[i];
    result.set_binaries(unit, made.binaries(i));
    *result.mutable_resources(unit) = made.resources(i);
    if (!made.binaries(i).empty()) {
      kept.Keep(digests[unit], ResultOf(made, i).SerializeAsString());
    }
  }
  return result;
}

}  // namespace tensord::testing
