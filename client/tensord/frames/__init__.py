# SPDX-License-Identifier: Apache-2.0
"""Frames: what torch.compile captured of a function, recorded so that a next process captures
nothing."""
