# SPDX-License-Identifier: Apache-2.0
"""Passes over the graph that Dynamo captured, and how such graphs are read."""
