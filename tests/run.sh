#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds and runs the tests: ctest, then pytest.
#
#   tests/run.sh [PYTEST ARGUMENTS...]        # all but the long ones; e.g. tests/run.sh -k softmax
#   tests/run.sh --long                       # the long ones, which .ci/run runs besides
#   tests/run.sh --build                      # installs and builds, runs nothing
#   tests/run.sh --unit FOLDER [CTEST ARGUMENTS...]
#                                             # the unit tests of one folder of tests/unit; `all`: of all
#   tests/run.sh --e2e [PYTEST ARGUMENTS...]  # the end-to-end tests alone
#
# TENSORD_TEST_CACHE: where compiled kernels are kept between runs (default ~/.cache/tensord-tests;
# empty: nowhere).
#
# Long is what takes minutes while shorter tests look at the same code: the label long of ctest, the
# marker long of pytest. Where there are arguments for pytest it leaves nothing out. A subset builds
# only what it needs. The last line is `N passed, N failed`, of ctest and pytest
# together; it ends with 1 when anything failed, was not built, or when no test ran at all.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/deploy/lib/setup.sh"
. "$root/tests/tools/test_cache.sh"

unit=all e2e=yes arguments=() targets=() only=(-LE '^long$') cases=()
case ${1:-} in
  --long)
    [ $# -eq 1 ] || die "tests/run.sh --long takes no arguments"
    targets=(all long_tests) only=(-L '^long$') cases=(-m long)
    ;;
  --build) unit='' e2e='' ;;
  --unit)
    unit=${2:?"tests/run.sh --unit FOLDER: a folder of tests/unit, or all"} e2e=''
    [ "$unit" = all ] || [ -d "$root/tests/unit/$unit" ] || die "there is no folder tests/unit/$unit"
    arguments=("${@:3}")
    if [ "$unit" = all ]; then
      targets=(all long_tests) only=("${arguments[@]}")
    else
      targets=("unit_$unit") only=(-L "^$unit\$" "${arguments[@]}")
    fi
    ;;
  --e2e)
    unit='' targets=(tensord tensord-worker tensorctl tensord_runtime store_driver tensord_faults fleet_load)
    arguments=("${@:2}") cases=(-m 'not long')
    ;;
  *) arguments=("$@") cases=(-m 'not long') ;;
esac
# What is asked for by name is wanted, however long it takes.
[ ${#arguments[@]} -eq 0 ] || cases=()
setup deploy/requirements.txt tests/requirements.txt -- "${targets[@]}"
[ -n "$unit$e2e" ] || exit 0

# A test finds its daemon and its settings itself; those of the caller would mislead it.
no_cuda_tests=${TENSORD_NO_CUDA_TESTS:-}
# Kernels that tests compiled before are kept beside ccache's objects, which see to the rest.
cache=$(test_cache)
for name in $(compgen -e TENSORD_ || true); do unset "$name"; done
# The CUDA tests compile with the NVRTC of .venv and need no GPU. TENSORD_NO_CUDA_TESTS=1, which is
# read before the settings go, leaves them out.
if [ -n "$no_cuda_tests" ]; then export TENSORD_NO_CUDA_TESTS=1; fi
TENSORD_NVRTC=$("$venv/bin/python" -c \
  'import sysconfig; print(sysconfig.get_path("purelib") + "/nvidia/cu13/lib")')
export TENSORD_NVRTC
if [ -n "$cache" ]; then
  mkdir -p "$cache"/{jit,nvrtc,kernels}
  find "$cache"/{jit,nvrtc,kernels} -type f ! -name key -mtime +30 -delete
fi
export TENSORD_TEST_CACHE=$cache
# Models are made from configurations; nothing may be fetched.
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
# Spinning threads of one test would starve the compilers and daemons of another.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}

folder=$root/build/reports
rm -rf "$folder"
mkdir -p "$folder"
status=0 reports=()

if [ -n "$unit" ]; then
  say "ctest"
  reports+=("$folder/ctest.xml")
  ctest --test-dir "$root/build" -j "$(nproc)" --timeout 600 --output-on-failure --no-tests=error \
    --output-junit "$folder/ctest.xml" "${only[@]}" || status=1
fi

if [ -n "$e2e" ]; then
  { [ -n "$cache" ] && bash "$root/tests/tools/promtool.sh" "$cache"; } ||
    say "there is no promtool: what is written for Prometheus is parsed, and alerts are not tried"
  { command -v chromium && command -v chromedriver; } >/dev/null ||
    say "there is no Chromium (tests/packages-browser.txt): the page is not tried in a browser"
  say "pytest"
  reports+=("$folder/pytest.xml")
  # A process a core and one for when others wait, each of whole files, which share daemons; a subset
  # of few tests is quicker in one. A hung test names itself after its time is up, rather than
  # holding everything.
  if [ ${#arguments[@]} -eq 0 ]; then cases+=(-n "$(($(nproc) + 1))" --dist loadfile); fi
  (cd "$root" && "$venv/bin/python" -m pytest tests/e2e -q --durations=10 --timeout 600 \
    --junitxml "$folder/pytest.xml" "${cases[@]}" "${arguments[@]}") || status=1
fi

# A missing report or a crash outside of any test is a failure as well.
"$venv/bin/python" "$root/tests/count.py" "$status" "${reports[@]}"
