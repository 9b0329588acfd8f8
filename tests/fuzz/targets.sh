#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes what reads bytes from outside, with libFuzzer, AddressSanitizer and UBSan.
#
#   tests/fuzz/targets.sh [TARGET...] [--seconds 60] [--keep]
#
# TARGET: request, graph, record, artifact, worker, frame, archive, profile (tests/fuzz/targets); all of
# them without one, --seconds each. Installs clang where it is missing, builds into build-fuzz only what is needed,
# and begins with tests/fuzz/corpus and with what earlier runs found in build-fuzz/corpus. --keep adds
# to the former the smallest inputs that reach more than it does.
#
# Prints a line a target: executions, code reached (edges, features), findings. A finding lies in
# build-fuzz/findings; mended, it goes to tests/fuzz/corpus/TARGET, under a name that says what it was,
# where the unit tests replay it. Ends with 1 when there are findings.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/deploy/lib/setup.sh"
cd "$root"

targets=() seconds=60 keep=
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=${2:?"--seconds N"} && shift ;;
    --keep) keep=yes ;;
    request | graph | record | artifact | worker | frame | archive | profile) targets+=("$1") ;;
    *) die "tests/fuzz/targets.sh [TARGET...] [--seconds N] [--keep]; there is no $1" ;;
  esac
  shift
done
[ ${#targets[@]} -gt 0 ] || targets=(request graph record artifact worker frame archive profile)

setup_packages
setup_packages tests/fuzz/packages-debian.txt
cmake --preset fuzz >/dev/null
say "building ${targets[*]}"
quietly ninja -C build-fuzz "${targets[@]/#/fuzz_}"

# Allocations of 2 GiB or more are refused, as they would be by a machine, before libFuzzer sees them;
# what leaks is a finding.
export ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=2047:detect_leaks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
findings=build-fuzz/findings total=0
mkdir -p "$findings"
for target in "${targets[@]}"; do
  found=build-fuzz/corpus/$target log=build-fuzz/$target.log
  mkdir -p "$found"
  status=0
  build-fuzz/bin/"fuzz_$target" "$found" "tests/fuzz/corpus/$target" -max_total_time="$seconds" \
    -artifact_prefix="$findings/$target-" -timeout=20 -rss_limit_mb=4096 -malloc_limit_mb=2048 \
    -max_len=16384 -print_final_stats=1 >"$log" 2>&1 || status=$?
  if [ $status -ne 0 ]; then
    total=$((total + 1))
    grep -E '^(SUMMARY|Test unit|artifact_prefix)|: (runtime error|check failed)|ERROR' "$log" | head -n 4
  fi
  printf '%-9s %9s executions, %s%s\n' "$target" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
    "$(grep -oE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -n 1)" \
    "$([ $status -eq 0 ] || echo ", a finding: $log")"
  if [ -n "$keep" ]; then
    build-fuzz/bin/"fuzz_$target" -merge=1 -max_len=2048 "tests/fuzz/corpus/$target" "$found" \
      >"$log.merge" 2>&1 || true
  fi
done
[ "$total" -eq 0 ]
