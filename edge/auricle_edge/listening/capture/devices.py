"""`auricle edge devices`: which microphones are there now."""

from __future__ import annotations

import select
import time

from auricle.errors import DataError, WireError
from auricle_edge.listening.capture.child_process import CaptureChild
from auricle_edge.listening.capture.frames import Device


def devices(within: float = 10.0) -> list[Device]:
    """List the microphones, asked of a fresh child, so that one plugged in a moment ago is there.

    Parameters
    ----------
    within
        Seconds that the sound system may take.

    Raises
    ------
    DataError
        It did not answer.
    """
    child = CaptureChild({"kind": "list"})
    until = time.monotonic() + within
    try:
        while (left := until - time.monotonic()) > 0:
            if not select.select([child], [], [], left)[0]:
                break
            for frame in child.frames():
                if isinstance(frame, list):
                    return frame
                raise DataError(f"The sound system cannot list its devices: {getattr(frame, 'sentence', frame)}")
    except (EOFError, WireError) as error:
        raise DataError("Listing the sound devices failed: try `arecord -L`.") from error
    finally:
        child.close()
    raise DataError(f"The sound system did not list its devices within {within:.0f} s: restart it.")
