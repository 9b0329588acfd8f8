"""What goes to the daemon and comes back: graphs as protos, RPCs, and how a daemon is found."""
