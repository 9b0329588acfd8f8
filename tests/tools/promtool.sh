#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# promtool, with which tests check what is written for Prometheus:
#
#   tests/tools/promtool.sh FOLDER
#
# Nothing to do where it is installed, or in FOLDER already; else it is taken out of Debian's package
# `prometheus`, which is not installed: that would start a server. Ends with 1 where it cannot be had.
set -euo pipefail
folder=${1:?"tests/tools/promtool.sh FOLDER"}
if command -v promtool >/dev/null || [ -x "$folder/promtool" ]; then exit 0; fi
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download prometheus >/dev/null 2>&1 || exit 1
dpkg-deb --fsys-tarfile ./*.deb | tar -x ./usr/bin/promtool
mkdir -p "$folder"
mv usr/bin/promtool "$folder/promtool.$$"
mv "$folder/promtool.$$" "$folder/promtool"
