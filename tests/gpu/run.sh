#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The GPU tests, from an unpacked bundle: no network, compiler or packages beyond torch are needed.
#
#   tests/gpu/run.sh [--bundle FILE|FOLDER] [--sections ops,models,...] [--budget SECONDS]
#                    [--json FILE] [--device cpu]        # --help lists all
#
# The bundle is dist/tensord-*.tar.gz unless --bundle names it; TENSORD_GPU_NO_BUNDLE=1 takes the
# package `tensord` that Python finds. PYTHON is the interpreter (default python3). The last line is
# `N passed, N failed`; it ends with 1 when anything failed or nothing ran.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${PYTHON:-python3}
. "$root/tests/gpu/bundle.sh"
work=$(mktemp -d /tmp/tensord-gpu-XXXXXX)
trap 'rm -rf "$work"' EXIT

bundle=
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --bundle) bundle=$2; shift ;;
    --bundle=*) bundle=${1#*=} ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

if [ "${TENSORD_GPU_NO_BUNDLE:-0}" != 1 ]; then use_bundle "$bundle" "$work"; fi

for name in TENSORD_ADDRESS TENSORD_STORE TENSORD_STRICT TENSORD_TIMEOUT_S; do unset "$name"; done
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false
"$python" "$root/tests/gpu/run.py" --work "$work" ${arguments[@]+"${arguments[@]}"}
