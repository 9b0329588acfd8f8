"""Passes over what is exported: a forward, a backward or an inference graph."""
