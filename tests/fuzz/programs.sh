#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Random programs of tensors, compiled and compared with eager; what fails is shrunk to a script.
#
#   tests/fuzz/programs.sh [--count 300] [--seed 0] [--device cpu|cuda] [--jobs N]
#                          [--budget SECONDS] [--results FILE]
#
# tests/fuzz/programs/main.py says the rest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/deploy/lib/setup.sh"
setup deploy/requirements.txt tests/requirements.txt -- tensord tensord-worker tensord_runtime
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}
cd "$root"
exec "$venv/bin/python" tests/fuzz/programs/main.py "$@"
