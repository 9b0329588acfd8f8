# SPDX-License-Identifier: Apache-2.0
"""Passes over the joint graph of forward and backward."""
