# SPDX-License-Identifier: Apache-2.0
"""What goes to the daemon and comes back: graphs as protos, RPCs, and how a daemon is found."""
