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
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}
cd "$root"
exec "$venv/bin/python" tests/zoo/main.py "$@"
