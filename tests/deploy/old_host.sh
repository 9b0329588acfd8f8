#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries wheel and tarball of dist/ in the file system of an older host, as root:
#
#   tests/deploy/old_host.sh [ROOT]
#
# ROOT: of a file system with python3, pip and GCC 12, to which nothing but /opt/tensord-test and /tmp is
# written. Without one mmdebstrap makes that of Ubuntu 22.04: glibc 2.35, the oldest that is still to be
# had of Debian and its kin and that the wheel is for. Its packages are not compared with a key, which a
# Debian does not have; nothing of it runs outside.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/deploy/lib/setup.sh"
wheel=$(ls -t "$root"/dist/tensord-*.whl 2>/dev/null | head -n 1)
bundle=$(ls -t "$root"/dist/tensord-*.tar.gz 2>/dev/null | head -n 1)
[ -n "$wheel" ] && [ -n "$bundle" ] || die "there is no bundle in $root/dist: deploy/bundle.sh"
system=${1:-} work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$system" ]; then
  setup_packages tests/deploy/packages-debian.txt
  system=$work/system
  say "making the file system of Ubuntu 22.04"
  quietly mmdebstrap --variant=minbase --include=python3-pip,g++-12,ca-certificates jammy "$system" \
    'deb [trusted=yes] http://archive.ubuntu.com/ubuntu jammy main universe' || die "mmdebstrap failed"
fi
ours=$system/opt/tensord-test
rm -rf "$ours"
mkdir -p "$ours/tests"
cp "$wheel" "$ours/"
tar xf "$bundle" -C "$ours"
cp -r "$root/tests/deploy" "$root/tests/faults" "$ours/tests/"
cp -rL "$venv"/lib/python*/site-packages/nvidia/cu*/lib "$ours/nvrtc"
cp /etc/ssl/certs/ca-certificates.crt "$ours/authorities.crt" # of the host, which may have a proxy
cp -L /etc/resolv.conf "$system/etc/resolv.conf"

inside='
set -eu
cd /opt/tensord-test
ldd --version | head -n 1
python3 --version
python3 -m pip --version
export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
python3 -m pip install -q --target site tensord-*.whl
for cxx in g++-14 g++-13 g++-12 c++; do ! command -v $cxx >/dev/null || break; done
try() { # PROGRAMS PYTHONPATH
  folder=$(mktemp -d)
  chown 1000:1000 "$folder"
  export TENSORD_CXX=$cxx TENSORD_NVRTC=/opt/tensord-test/nvrtc
  export XDG_RUNTIME_DIR=$folder XDG_CACHE_HOME=$folder PYTHONPATH=$2 HOME=$folder
  setpriv --reuid 1000 --regid 1000 --clear-groups "$1/tensord" 2>"$folder/log" &
  for i in $(seq 100); do [ ! -S "$folder/tensord/tensord.sock" ] || break; sleep 0.1; done
  "$1/tensorctl" status
  for kind in cpu cuda; do
    TENSORD_ADDRESS=unix:$folder/tensord/tensord.sock python3 tests/deploy/ask.py $kind ||
      { cat "$folder/log"; exit 1; }
  done
  kill $! && wait $!
  rm -rf "$folder"
}
echo "the wheel:"
for program in tensord tensorctl; do
  PYTHONPATH=site site/bin/$program --version
done
ls site/share/man/man1/tensorctl.1 site/share/man/man8/tensord.8 \
  site/share/bash-completion/completions/tensorctl
try site/tensord/bin site
echo "the tarball:"
try tensord-*/bin "$(echo tensord-*/python)"
'
unshare --mount --pid --fork --kill-child bash -euc '
mount -t proc proc "$1/proc"
mount --bind /dev "$1/dev"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root PIP_CERT=/opt/tensord-test/authorities.crt \
  SSL_CERT_FILE=/opt/tensord-test/authorities.crt chroot "$1" sh -c "$2"' run "$system" "$inside"
rm -rf "$ours"
say "both run"
