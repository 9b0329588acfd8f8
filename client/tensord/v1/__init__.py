# SPDX-License-Identifier: Apache-2.0
"""Generated protobuf modules (see client/generate_protos.sh)."""
