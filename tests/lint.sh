#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks of the sources that need no build: what may include what, licences, version numbers, tests of
# passes, names in documents and comments, their tables of passes, the format of C++, ruff's rules and
# layout, the types of the client and of scripts.
#
#   tests/lint.sh
#
# Runs all of them, and ends with 1 when one found something.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/deploy/lib/setup.sh"
setup_packages
setup_python deploy/requirements.txt tests/requirements.txt
setup_client # mypy reads the types of its protos

cd "$root"
status=0
for check in includes spdx versions pass_tests check_docs format; do
  say "$check"
  "$venv/bin/python" "tests/lint/$check.py" || status=1
done
say "tables of passes"
"$venv/bin/python" docs/generate.py --check --tables || status=1
say "tests of the checks"
"$venv/bin/python" -m pytest tests/lint -q || status=1

settings=client/pyproject.toml
python=(client docs tests deploy examples)
say "ruff"
"$venv/bin/ruff" check --quiet --config "$settings" "${python[@]}" || status=1
"$venv/bin/ruff" format --check --quiet --config "$settings" "${python[@]}" || status=1

say "mypy"
(cd client && "$venv/bin/mypy" --cache-dir ../build/mypy tensord) || status=1
MYPYPATH=client:deploy/lib:tests/lint:tests/golden "$venv/bin/mypy" --config-file "$settings" \
  --cache-dir build/mypy docs/*.py deploy/*.py deploy/lib/*.py deploy/kubernetes/*.py \
  deploy/monitoring/*.py examples/*.py \
  tests/lint/*.py tests/golden/*.py || status=1

exit $status
