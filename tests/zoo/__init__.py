# SPDX-License-Identifier: Apache-2.0
"""Every architecture of transformers and timm, small, compiled and compared (tests/models.sh)."""
