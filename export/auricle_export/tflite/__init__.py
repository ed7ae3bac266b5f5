"""Inference models for LiteRT out of a pack's own evaluation graphs, with weights that a device can replace in place.

`tflite_model` translates operator by operator, for a fixed batch; `with_tflite` puts such models into a pack. The
pack's tensors lie in the file in the pack's own order, so that new weights are copied to where `Tflite.buffers` says.
"""

from __future__ import annotations

from auricle_export.tflite.pack import OPERATORS, tflite_model, with_tflite

__all__ = ["OPERATORS", "tflite_model", "with_tflite"]
