#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks of the sources, which need no build: what may include what, licences, version numbers, the
# format of C++, then what tests/lint.sh has for Python. Runs all of them; ends with 1 when one found
# something.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/deploy/lib/setup.sh"
setup_python deploy/requirements.txt tests/requirements.txt

status=0
for check in includes spdx versions format; do
  say "$check"
  "$venv/bin/python" "$root/tests/lint/$check.py" || status=1
done
say "tests of the checks"
(cd "$root" && "$venv/bin/python" -m pytest tests/lint -q) || status=1
bash "$root/tests/lint.sh" || status=1
exit $status
