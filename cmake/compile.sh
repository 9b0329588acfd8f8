#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compile.sh CCACHE COMPILER ARGUMENTS...: compiles through ccache.
#
# CMake compiles a precompiled header with `-include` of its own source, for which GCC takes the
# header that the last build left, with all that was declared then. So that one goes first.
previous=
for argument in "$@"; do
  case "$previous$argument" in
    -o*.gch) rm -f "$argument" ;;
  esac
  previous=$argument
done
# What one checkout has compiled serves another: paths below it count as relative ones.
CCACHE_BASEDIR=$(cd "${0%/*}/.." && pwd)
export CCACHE_BASEDIR CCACHE_NOHASHDIR=1
# Precompiled headers carry time stamps; ccache must be told to look past them.
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
exec "$@"
