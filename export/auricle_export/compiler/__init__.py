"""From a PyTorch module to step graphs of standard ONNX operators.

`intercept` replaces what a module calls by functions whose backward passes are few and large operators: `convolution`,
`recurrent`, `dense`, `elementwise`. `trace` runs the module once, forward and backward, and `onnx_export` makes the two
one fragment. `builder`, `losses` and `optimizers` put fragments, losses and optimizers together into step graphs.
"""
