#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds unit tests with a sanitizer and runs them: those that the presets of CMakePresets.json name.
#
#   tests/sanitized.sh asan    # AddressSanitizer and UndefinedBehaviorSanitizer
#   tests/sanitized.sh tsan    # ThreadSanitizer: server and runtime
#
# Ends with 1 when a test failed or was not built.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/deploy/lib/setup.sh"
. "$root/tests/tools/test_cache.sh"
preset=${1:?"tests/sanitized.sh asan|tsan"}
setup_packages
cd "$root"
# Without NVRTC, which takes long: what is compiled by it is tested by tests/run.sh alone.
export TENSORD_NO_CUDA_TESTS=1
# The kernels of tests are compiled without a sanitizer: those that tests/run.sh has kept serve here.
TENSORD_TEST_CACHE=$(test_cache)
export TENSORD_TEST_CACHE
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset"
ctest --preset "$preset" -j "$(nproc)"
