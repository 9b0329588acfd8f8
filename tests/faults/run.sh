#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A campaign against the service, with daemons and stores of its own: real faults, and what must hold.
#
#   tests/faults/run.sh NAME [ARGUMENTS...]     # kills, publish, errors, power, flips, forged,
#                                               # frames, limit, evictions, volume, hangs, stops,
#                                               # bombs, million, versions, service or soak
#   tests/faults/run.sh all                     # each of them as it is, but soak, of 10 minutes
#
# It prints a table of figures, and ends with 1 when what must hold did not. Each says more with --help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
name=${1:?"tests/faults/run.sh NAME: a campaign, or all"}
shift
. "$root/deploy/lib/setup.sh"
setup deploy/requirements.txt tests/requirements.txt -- \
  tensord tensord-worker tensorctl tensord_runtime store_driver tensord_faults
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}
cd "$root"
if [ "$name" != all ]; then
  [ -f "tests/faults/$name.py" ] || die "there is no campaign $name"
  exec "$venv/bin/python" "tests/faults/$name.py" "$@"
fi
status=0
for name in kills publish errors power flips forged frames limit evictions volume hangs stops \
  bombs million versions service soak; do
  say "$name"
  minutes=()
  if [ "$name" = soak ]; then minutes=(--minutes 10); fi
  "$venv/bin/python" "tests/faults/$name.py" "${minutes[@]}" "$@" || status=1
done
exit $status
