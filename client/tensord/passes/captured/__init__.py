"""Passes over the graph that Dynamo captured, and how such graphs are read."""
