"""From a captured graph to its compiled program: libtensord_runtime, and the callable over it."""
