"""The runtime `native`: a pack's graphs as flat programs for a small C library, with onnxruntime for what it lacks."""
