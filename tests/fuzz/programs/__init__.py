# SPDX-License-Identifier: Apache-2.0
"""Random programs of tensors, compiled and compared with eager (tests/fuzz/programs.sh)."""
