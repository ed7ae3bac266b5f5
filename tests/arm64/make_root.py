"""Make the emulated board, or bring it up to date with this checkout: `python -m tests.arm64.make_root`.

Needs Linux and root, and network the first time. AURICLE_ARM64_ROOT says where it is kept, AURICLE_DEBIAN_MIRROR where
Debian comes from, AURICLE_ARM64_SUITE which one it is: bookworm (Python 3.11) or trixie (3.13).
"""

from __future__ import annotations

import sys

from auricle.errors import AuricleError
from tests.arm64.board import Board, progress


def main() -> int:
    """Make it; returns 0, or 2 with a sentence."""
    try:
        board = Board.from_environment()
        board.make(progress)
    except AuricleError as error:
        print(f"arm64: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("arm64: Interrupted; the next run goes on where this one stopped.", file=sys.stderr)
        return 130
    print(board.path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
