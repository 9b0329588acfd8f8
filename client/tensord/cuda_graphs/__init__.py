"""mode="reduce-overhead": programs on a GPU, captured as CUDA graphs and replayed."""
