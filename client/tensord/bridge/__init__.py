# SPDX-License-Identifier: Apache-2.0
"""From a captured graph to its compiled program: libtensord_runtime, and the callable over it."""
