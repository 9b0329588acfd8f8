#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the images of deploy/container and tries them, as root, in some minutes:
#
#   tests/deploy/container.sh [BUNDLE.tar.gz]    # the newest of dist/ otherwise
#
# STORAGE_DRIVER=vfs where there is no overlay; it takes three times as long.
#
# It installs buildah and mmdebstrap of Debian, and makes the base image by the latter: no registry is
# asked. The images run without an engine: their files read-only, as their user, with processes and
# mounts of their own, gaining nothing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/deploy/lib/setup.sh"
bundle=${1:-$(ls -t "$root"/dist/tensord-*.tar.gz 2>/dev/null | head -n 1)}
[ -n "$bundle" ] || die "no bundle in $root/dist: make one with deploy/bundle.sh"
setup_packages tests/deploy/packages-debian.txt

work=$(mktemp -d)
tool=(buildah --storage-driver "${STORAGE_DRIVER:-overlay}" --root "$work/storage" --runroot "$work/run")
daemon=
cleanup() {
  [ -z "$daemon" ] || kill -KILL "$daemon" 2>/dev/null || true
  wait
  "${tool[@]}" rm --all >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT

say "making Debian's base image"
quietly mmdebstrap --variant=minbase bookworm "$work/debian.tar" || die "mmdebstrap failed"
base=$("${tool[@]}" from scratch)
quietly "${tool[@]}" add "$base" "$work/debian.tar" /
# Authorities are the host's, which may stand behind a proxy.
cp /etc/ssl/certs/ca-certificates.crt "$work/host.crt"
printf '[global]\ncert = /etc/host.crt\n' >"$work/pip.conf"
quietly "${tool[@]}" add "$base" "$work/host.crt" "$work/pip.conf" /etc/
quietly "${tool[@]}" commit --rm "$base" localhost/debian:12
rm "$work/debian.tar"

say "building the images"
mkdir "$work/context"
tar xf "$bundle" -C "$work/context" --strip-components 1
for target in cuda cpu; do
  quietly "${tool[@]}" build --isolation chroot --format docker --layers --pull-never \
    --build-arg DEBIAN=localhost/debian:12 --target $target -t "tensord:$target" \
    -f "$work/context/deploy/container/Containerfile" "$work/context" || die "$target: no image"
done
"${tool[@]}" images --format '{{.Name}}:{{.Tag}} {{.Size}}'

# What an engine does of an image, once its files are at IMAGE: serve IMAGE VOLUMES.
serve='
set -eu
image=$1 volumes=$2
mount --bind "$image" "$image"
mount -t proc proc "$image/proc"
mount -t tmpfs tmpfs "$image/dev"
for device in null zero urandom; do
  touch "$image/dev/$device"
  mount --bind "/dev/$device" "$image/dev/$device"
done
mount --bind "$volumes/run" "$image/run/tensord"
mount --bind "$volumes/store" "$image/var/lib/tensord"
mount -o remount,bind,ro "$image"
chroot=$(command -v chroot)
exec env -i XDG_RUNTIME_DIR=/run XDG_CACHE_HOME=/var/lib PATH=/opt/tensord/bin:/usr/bin:/bin \
  /usr/bin/setpriv --no-new-privs "$chroot" --userspec=1000:1000 "$image" /opt/tensord/bin/tensord
'

# try TARGET KIND...: has the daemon of an image compile these kinds of graphs.
try() {
  local target=$1 image volumes=$work/$1 kind
  shift
  say "trying $target"
  "${tool[@]}" inspect --type image --format '{{.Docker.Config.User}} {{.Docker.Config.Labels}}' \
    "tensord:$target" | grep '^1000:1000 .*image.title:tensord'
  image=$("${tool[@]}" mount "$("${tool[@]}" from --pull-never "tensord:$target")")
  mkdir -p "$image/proc" "$image/dev" "$volumes"
  install -d -m 0700 -o 1000 -g 1000 "$volumes/run" "$volumes/store"
  unshare --mount --pid --fork --kill-child bash -c "$serve" serve "$image" "$volumes" \
    2>"$volumes/log" &
  daemon=$!
  for _ in $(seq 100); do
    [ ! -S "$volumes/run/tensord.sock" ] || break
    sleep 0.1
  done
  export TENSORD_ADDRESS=unix:$volumes/run/tensord.sock
  "$volumes/../context/bin/tensorctl" status || die "$(cat "$volumes/log")"
  for kind in "$@"; do
    "$venv/bin/python" "$root/tests/deploy/ask.py" "$kind" || die "$(cat "$volumes/log")"
  done
  # The daemon is the first process there, and ends when it is told to.
  kill -TERM "$(pgrep -P "$daemon")"
  wait "$daemon" || die "the daemon ended with $?"
  daemon=
  grep -q event=stopped "$volumes/log" || die "$(cat "$volumes/log")"
}

try cuda cuda
image=$("${tool[@]}" mount | awk 'NR == 1 { print $2 }')
for shell in sh bash dash busybox; do
  [ ! -e "$image/usr/bin/$shell" ] || die "the image has a shell: $shell"
done
say "trying the chart's pod"
mkdir "$work/node"
unshare --mount --pid --fork --kill-child "$venv/bin/python" "$root/tests/deploy/pod.py" "$image" \
  "$work/node" 2>"$work/pod.log" || die "$(cat "$work/pod.log")"
try cpu cuda cpu
say "both images serve"
