"""The part that runs on the board: features, clips, training, the link to the fleet."""

import platform
import sys

from auricle.errors import AuricleError

if sys.maxsize <= 1 << 32:  # before anything is missed that pip could not install there
    raise AuricleError(
        f"This Python is 32-bit ({platform.machine()}), for which there is no onnxruntime: use a 64-bit system, "
        "on a Raspberry Pi the 64-bit image, with a 64-bit Python."
    )
