#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every architecture of transformers and timm, small, compiled and compared with eager.
#
#   tests/models.sh [--only REGEX] [--device cpu|cuda] [--jobs N] [--budget SECONDS] [--write-docs]
#
# tests/zoo/main.py says the rest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/deploy/lib/setup.sh"
setup deploy/requirements.txt tests/requirements.txt -- tensord tensord-worker tensord_runtime

# timm lies beside the environment rather than in it: transformers uses a torchvision that it sees,
# and with a torch for CPUs that only works for those who declare its operators (catalogue.py).
torch=$("$venv/bin/python" -c 'import importlib.metadata as m; print(m.version("torch"))')
minor=${torch#2.} minor=${minor%%.*}
wanted=$(printf '%s\n' "$torch" | cat - "$root/tests/zoo/requirements.txt" | hash_of)
if ! stamped zoo "$wanted"; then
  say "installing timm"
  # torchvision 0.N+15 is made for torch 2.N.
  quietly "$venv/bin/python" -m pip install --no-deps --upgrade --target "$venv/zoo" \
    "torchvision==0.$((minor + 15)).*" -r "$root/tests/zoo/requirements.txt" || die "pip failed"
  stamp zoo "$wanted"
fi
export PYTHONPATH=$venv/zoo${PYTHONPATH:+:$PYTHONPATH}
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}
cd "$root"
exec "$venv/bin/python" tests/zoo/main.py "$@"
