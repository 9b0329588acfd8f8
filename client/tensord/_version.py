# SPDX-License-Identifier: Apache-2.0
"""The package's version, in a module of its own so that a build reads it without importing more."""

VERSION = "0.1.0"
