"""Auricle: federated keyword spotting on real boards. This package holds what two or more parts share."""

import os

from auricle.promised import promised

TYPE_CHECKING = False
if TYPE_CHECKING:  # without typing: the smallest process of a device imports this
    from auricle.packs.pack import Pack, load_pack

__all__ = ["Pack", "load_pack"]

__version__ = "0.1.0"

# From 1.29 on onnxruntime keeps and sends events of its own, unless it is told not to before it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if not TYPE_CHECKING:
    __getattr__, __dir__ = promised(
        __name__,
        {
            "Pack": "auricle.packs.pack",
            "load_pack": "auricle.packs.pack",
        },
    )
