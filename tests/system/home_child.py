"""A listening device of a home that misses its hub after a second: `python -m tests.system.home_child STATE SOURCE`."""

from __future__ import annotations

import sys

import msgspec

from auricle_edge.service import home_watch
from auricle_edge.service.process import serve
from auricle_edge.settings import read_settings


def main(state: str, source: str) -> None:
    """Listen, and start again as often as the hub moves."""
    home_watch.LOOK_SECONDS, home_watch.AWAY_SECONDS = 0.5, 1.0
    encoded: bytes | None = msgspec.json.encode(read_settings(None, {"state": state, "source": source}))
    while encoded is not None:
        encoded = serve(encoded, as_json=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
