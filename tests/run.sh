#!/usr/bin/env bash
# Installs what is missing, builds everything and runs every test: ctest, then pytest.
#
#   tests/run.sh [PYTEST ARGUMENTS...]      # e.g. tests/run.sh -k softmax
#
# The last line is `N passed, N failed`, of both together; it ends with 1 when anything failed, was
# not built, or when no test ran at all.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/deploy/lib/setup.sh"
setup deploy/requirements.txt tests/requirements.txt

# A test finds its daemon and its settings itself; those of the caller would mislead it.
no_cuda_tests=${TENSORD_NO_CUDA_TESTS:-}
for name in $(compgen -e TENSORD_ || true); do unset "$name"; done
# The CUDA tests compile with the NVRTC of .venv and need no GPU. TENSORD_NO_CUDA_TESTS=1, which is
# read before the settings go, leaves them out.
if [ -n "$no_cuda_tests" ]; then export TENSORD_NO_CUDA_TESTS=1; fi
TENSORD_NVRTC=$("$venv/bin/python" -c \
  'import sysconfig; print(sysconfig.get_path("purelib") + "/nvidia/cu13/lib")')
export TENSORD_NVRTC
# Models are made from configurations; nothing may be fetched.
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
# Spinning threads of one test would starve the compilers and daemons of another.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}

reports=$root/build/reports
rm -rf "$reports"
mkdir -p "$reports"
status=0

say "ctest"
ctest --test-dir "$root/build" -j "$(nproc)" --timeout 600 --output-on-failure --no-tests=error \
  --output-junit "$reports/ctest.xml" || status=1

say "pytest"
# A hung test names itself after its time is up, rather than holding everything.
(cd "$root" && "$venv/bin/python" -m pytest tests/e2e -q --durations=10 --timeout 600 \
  --junitxml "$reports/pytest.xml" "$@") || status=1

# The closing line. A missing report or a crash outside of any test is a failure as well.
"$venv/bin/python" - "$status" "$reports/ctest.xml" "$reports/pytest.xml" <<'COUNT'
import sys
import xml.etree.ElementTree as ElementTree

broken, reports = sys.argv[1] != "0", sys.argv[2:]
passed = failed = 0
for report in reports:
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        print(f"{report}: {error}")
        cases, broken = [], True
    for case in cases:
        skipped = case.find("skipped")
        # ctest says "notrun" of a test that skipped itself, and of one that could not be started.
        reason = skipped.get("message", "") if skipped is not None else ""
        unstarted = case.get("status") == "notrun" and not reason.startswith("SKIP_")
        if case.find("failure") is not None or case.find("error") is not None or unstarted:
            failed += 1
        elif skipped is None:
            passed += 1
if broken and not failed:
    failed = 1  # something beside a single test went wrong
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed or not passed else 0)
COUNT
