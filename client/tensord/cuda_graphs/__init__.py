# SPDX-License-Identifier: Apache-2.0
"""mode="reduce-overhead": programs on a GPU, captured as CUDA graphs and replayed."""
