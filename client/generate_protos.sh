#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Generates client/tensord/v1/*_pb2.py, and their types, *_pb2.pyi. Debian 12's protoc (3.21) is
# preferred: protobuf runtimes from 4.25 to the newest read what it writes, while a newer protoc's
# output refuses older runtimes. There are no generated stubs: wire/rpc.py names the few methods itself.
#
# --list: prints which protos these are, and generates nothing.
set -eu
if [ "${1:-}" = --list ]; then list=yes; fi
here=$(cd "$(dirname "$0")" && pwd)
protos="$here/../proto"
set -- tensord/v1/graph.proto tensord/v1/artifact.proto tensord/v1/compile.proto \
  tensord/v1/frame.proto tensord/v1/profile.proto tensord/v1/stats.proto tensord/v1/trace.proto \
  tensord/v1/requests.proto tensord/v1/service.proto
if [ "${list:-}" ]; then
  echo "$@"
  exit
fi
cd "$protos"
if command -v protoc >/dev/null 2>&1; then
  exec protoc -I. --python_out="$here" --pyi_out="$here" "$@"
fi
exec "${PYTHON:-python3}" -m grpc_tools.protoc -I. --python_out="$here" --pyi_out="$here" "$@"
