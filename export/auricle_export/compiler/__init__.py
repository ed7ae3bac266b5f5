"""From a PyTorch module to step graphs of standard ONNX operators.

`intercept` replaces what a module calls by functions whose backward passes are few and large operators
(`convolution`, `recurrent`, `dense`); `trace` runs the module once, forward and backward, and exports the two as one
fragment; `builder`, `losses` and `optimisers` put fragments, losses and optimisers together into step graphs.
"""
