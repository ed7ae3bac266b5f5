"""Models judged on an operator's clips, by onnxruntime or on a GPU."""
