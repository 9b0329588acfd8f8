# SPDX-License-Identifier: Apache-2.0
"""From Dynamo's graph to forward and backward graphs: AOTAutograd, and what holds meanwhile."""
