#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every operator of PyTorch's operator database under torch.compile(backend="tensord") in strict mode,
# against eager: all samples of the database and odd inputs made of them, forward and gradients.
#
#   tests/sweep.sh [--ops REGEX] [--dtypes float32,...] [--variants samples,...] [--device cuda]
#                  [--no-grad] [--dynamic] [--slice K/N --seed COMMIT] [--budget SECONDS]
#   tests/sweep.sh --bundle dist/FILE --device cuda    # a bundle's package, on a host without .venv
#   tests/sweep.sh --write-docs FILE...                # docs/operators.md from results; runs nothing
#
# --help lists all. Results go to build/sweep.jsonl, a line a case, and cases that are there are not
# run again. It ends with 1 when anything was wrong, refused or crashed that tests/sweep/excuses.py
# does not excuse, or when nothing ran. The last line is `N passed, N failed`. PYTHON is the
# interpreter (default: that of .venv, else python3).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/tests/gpu/bundle.sh"
python=${PYTHON:-$root/.venv/bin/python}
command -v "$python" >/dev/null || python=python3
work=$(mktemp -d /tmp/tensord-sweep-XXXXXX)
trap 'rm -rf "$work"' EXIT

arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --bundle) use_bundle "$2" "$work"; shift ;;
    --bundle=*) use_bundle "${1#*=}" "$work" ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

for name in TENSORD_ADDRESS TENSORD_STORE TENSORD_STRICT TENSORD_TIMEOUT_S; do unset "$name"; done
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
"$python" "$root/tests/sweep/main.py" ${arguments[@]+"${arguments[@]}"}
