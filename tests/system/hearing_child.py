"""A device whose quarter hours are short, so that a test sees its reports; everything else is the service."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from auricle_edge.fleet.report import period, reporter
from auricle_edge.service.process import serve
from auricle_edge.settings import read_settings


def main(config: str, quarter: str) -> None:
    """Run the service of a settings file with quarter hours of so many seconds."""
    period.QUARTER_SECONDS = reporter.QUARTER_SECONDS = float(quarter)  # type: ignore[misc, unused-ignore]
    serve(msgspec.json.encode(read_settings(Path(config), {})), as_json=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
