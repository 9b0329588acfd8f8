"""Passes over the joint graph of forward and backward."""
