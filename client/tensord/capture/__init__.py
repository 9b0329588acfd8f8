"""From Dynamo's graph to forward and backward graphs: AOTAutograd, and what holds meanwhile."""
