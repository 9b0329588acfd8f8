# SPDX-License-Identifier: Apache-2.0
"""Passes over what is exported: a forward, a backward or an inference graph."""
