"""Generated protobuf modules (see client/generate_protos.sh)."""
