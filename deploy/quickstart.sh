#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds tensord and trains a GPT with it, beside eager PyTorch.
#
#   deploy/quickstart.sh [--steps N] [--compare inductor] [--store FOLDER]    # --help lists all
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

for argument in "$@"; do
  case $argument in
    -h | --help) exec "${PYTHON:-python3}" "$root/deploy/quickstart.py" --help ;;
  esac
done

. "$root/deploy/lib/setup.sh"
setup deploy/requirements.txt -- tensord tensord-worker tensorctl tensord_runtime
exec "$venv/bin/python" "$root/deploy/quickstart.py" "$@"
