"""Auricle: federated keyword spotting on real boards. This package holds what two or more parts share."""

import os

__version__ = "0.1.0"

# From 1.29 on onnxruntime keeps and sends events of its own, unless it is told not to before it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
