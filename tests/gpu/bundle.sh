# SPDX-License-Identifier: Apache-2.0
# Takes the package `tensord` from a bundle; sourced by scripts that know `root`.

# use_bundle BUNDLE WORK: an archive, which is unpacked in the folder WORK, or an unpacked folder;
# empty for the newest of dist/. Python finds the package from there on.
use_bundle() {
  local bundle=$1 work=$2
  if [ -z "$bundle" ]; then
    bundle=$(ls -t "$root"/dist/tensord-*.tar.gz 2>/dev/null | head -n 1)
    [ -n "$bundle" ] || {
      echo "no bundle in $root/dist: make one with deploy/bundle.sh, or name it by --bundle" >&2
      exit 1
    }
  fi
  if [ -f "$bundle" ]; then
    mkdir "$work/bundle"
    tar -C "$work/bundle" -xzf "$bundle"
    bundle=$(echo "$work"/bundle/*)
  fi
  export PYTHONPATH=$bundle/python${PYTHONPATH:+:$PYTHONPATH}
}
