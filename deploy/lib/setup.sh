# SPDX-License-Identifier: Apache-2.0
# Brings a fresh machine to a built checkout; sourced by deploy/quickstart.sh and tests/run.sh.
#
#   root=/path/to/checkout; . "$root/deploy/lib/setup.sh"
#   setup REQUIREMENTS...          # files of requirements, relative to the checkout
#
# Each part is skipped when nothing is missing: packages by asking dpkg, the Python environment and
# the client by a stamp that holds a hash of what went into them, the build by ninja itself.
#
# Environment: PYTHON (the interpreter for .venv, default python3), TENSORD_TORCH_VERSION (default
# below), TENSORD_TORCH_INDEX (an index with CPU wheels of torch, asked besides pip's own).

TORCH_VERSION=${TENSORD_TORCH_VERSION:-2.13.0}
TORCH_INDEX=${TENSORD_TORCH_INDEX:-}

venv=$root/.venv
stamps=$venv/.tensord

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Runs a command quietly; what it printed is shown only when it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  [ $status -eq 0 ] || tail -n 60 "$log" >&2
  rm -f "$log"
  return $status
}

# stamped NAME HASH: true when the stamp NAME says that HASH is in place.
stamped() { [ "$(cat "$stamps/$1" 2>/dev/null)" = "$2" ]; }

stamp() { mkdir -p "$stamps" && printf '%s\n' "$2" >"$stamps/$1"; }

hash_of() { sha256sum | cut -c1-32; }

# ---- Debian packages --------------------------------------------------------------------------

# The packages of a list file that are not installed.
missing_packages() {
  local wanted installed
  wanted=$(sed -e 's/#.*//' "$1" | tr -s ' \n' '\n' | sed '/^$/d' | sort -u)
  # One question for all; packages that dpkg has never heard of are only named on standard error.
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null |
    sed -n 's/^installed //p' | sort -u)
  comm -23 <(printf '%s\n' "$wanted") <(printf '%s\n' "$installed")
}

# setup_packages [LIST]: the packages of deploy/packages-debian.txt, or of another list file.
setup_packages() {
  local list=${1:-deploy/packages-debian.txt} missing as_root=()
  if ! command -v dpkg-query >/dev/null; then
    say "no dpkg here: the counterparts of $list must be installed"
    return
  fi
  missing=$(missing_packages "$root/$list" | tr '\n' ' ')
  missing=${missing% }
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || ! { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
      die "these packages are missing; install them as root: apt-get install $missing"
    fi
    as_root=(sudo)
  fi
  say "installing packages: $missing"
  quietly "${as_root[@]}" apt-get update ||
    say "apt-get update failed; going on with the package lists that are here"
  quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends $missing ||
    die "apt-get could not install: $missing"
}

# ---- Python -----------------------------------------------------------------------------------

# The interpreter for .venv: 3.10 or later, with the modules that make an environment.
find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 /usr/bin/python3}; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' \
      2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  die "no Python 3.10 or later with the module venv (${PYTHON:-python3}); set PYTHON to one"
}

# pip's arguments for torch.
torch_arguments() {
  printf '%s\n' "torch==$TORCH_VERSION"
  if [ -n "$TORCH_INDEX" ]; then printf '%s\n' --extra-index-url "$TORCH_INDEX"; fi
}

setup_python() {
  local file version wanted arguments=()
  if ! "$venv/bin/python" -c '' 2>/dev/null; then
    local python
    python=$(find_python) || exit 1
    say "making .venv with $("$python" --version)"
    rm -rf "$venv"
    quietly "$python" -m venv "$venv" || die "cannot make $venv"
  fi
  version=$("$venv/bin/python" -c 'import sys; print(sys.version)')
  wanted=$({
    printf '%s\n' "$version" "$TORCH_VERSION"
    for file in "$@"; do cat "$root/$file"; done
  } | hash_of)
  # One stamp a list: the quick start and the tests each want their own.
  local name=requirements-$(printf '%s ' "$@" | hash_of)
  stamped "$name" "$wanted" && return
  for file in "$@"; do arguments+=(-r "$root/$file"); done
  if ! "$venv/bin/python" - "$TORCH_VERSION" <<'CHECK' 2>/dev/null; then
import importlib.metadata, sys
sys.exit(importlib.metadata.version("torch").split("+")[0] != sys.argv[1])
CHECK
    say "installing torch $TORCH_VERSION"
    mapfile -t torch < <(torch_arguments)
    quietly "$venv/bin/python" -m pip install "${torch[@]}" || die "pip could not install torch"
  fi
  say "installing Python packages: $*"
  quietly "$venv/bin/python" -m pip install "${arguments[@]}" || die "pip failed"
  stamp "$name" "$wanted"
}

# The package `tensord`, from this checkout, with its protobuf modules.
setup_client() {
  local wanted proto generated
  wanted=$(cat "$root/client/pyproject.toml" "$root/client/setup.py" | hash_of)
  for proto in $(sh "$root/client/generate_protos.sh" --list); do
    for generated in "$root/client/${proto%.proto}_pb2".{py,pyi}; do
      if [ ! "$generated" -nt "$root/proto/$proto" ]; then
        say "generating protobuf modules"
        quietly env PYTHON="$venv/bin/python" sh "$root/client/generate_protos.sh" ||
          die "client/generate_protos.sh failed"
        break 2
      fi
    done
  done
  stamped client "$wanted" && return
  say "installing the package tensord"
  # Without isolation the build needs no second set of setuptools from the network.
  quietly "$venv/bin/python" -m pip install --no-build-isolation --no-deps -e "$root/client" ||
    die "pip could not install client/"
  stamp client "$wanted"
}

# The native bridge, which is kept in the user's cache for each pair of Python and torch.
setup_native() {
  # By its path: as a module it would import torch first, which takes seconds.
  if "$venv/bin/python" -c '
import runpy, sys
sys.exit(runpy.run_path(sys.argv[1])["built_path"]() is None)' \
    "$root/client/tensord/_native/build.py" 2>/dev/null; then
    return
  fi
  say "building the native bridge"
  quietly "$venv/bin/python" -m tensord._native.build ||
    say "the native bridge was not built; the slower one in Python serves"
}

# ---- the build --------------------------------------------------------------------------------

# setup_build TARGET...: no target builds everything. Builds of one checkout take turns, for two at
# once would spoil each other.
setup_build() {
  local log
  mkdir -p "$root/build"
  exec 9>"$root/build/.lock"
  flock 9
  if [ ! -f "$root/build/build.ninja" ]; then
    say "configuring the build"
    (cd "$root" && quietly cmake --preset release) || die "cmake --preset release failed"
  fi
  say "building (${*:-everything})"
  # Progress for people; for a log, only what fails.
  if [ -t 1 ]; then
    ninja -C "$root/build" "$@" || die "the build failed"
  else
    log=$(mktemp)
    if ! ninja -C "$root/build" "$@" >"$log" 2>&1; then
      grep -v '^\[[0-9]*/[0-9]*\] ' "$log" | tail -n 100 >&2 || true
      die "the build failed"
    fi
    rm -f "$log"
  fi
  exec 9>&-
}

# setup REQUIREMENTS... [-- TARGET...]
setup() {
  local requirements=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    requirements+=("$1")
    shift
  done
  [ $# -eq 0 ] || shift
  setup_packages
  # Python's packages are mostly waited for, and the build needs nothing of them.
  local environment previous
  {
    setup_python "${requirements[@]}"
    setup_client
  } &
  environment=$!
  previous=$(trap -p EXIT)
  trap 'kill "$environment" 2>/dev/null || true' EXIT
  setup_build "$@"
  wait "$environment" || die "the Python environment could not be made"
  trap - EXIT
  eval "$previous"
  setup_native
}
