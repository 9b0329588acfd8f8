# SPDX-License-Identifier: Apache-2.0
# Where what tests compile is kept between runs; sourced by scripts that run tests.

# test_cache: TENSORD_TEST_CACHE if it is set, also to nothing, which keeps nothing.
test_cache() {
  echo "${TENSORD_TEST_CACHE-${XDG_CACHE_HOME:-$HOME/.cache}/tensord-tests}"
}
