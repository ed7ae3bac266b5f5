"""Install a built wheel on the emulated board and use it there: `python -m tests.arm64.try_wheel dist/auricle-*.whl`.

What the wheel needs on the board is there from the lock (`make_root`); the wheel itself is the one that is given, not
one of this checkout, which the next `make arm64` installs again.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from auricle.errors import AuricleError
from tests.arm64.board import ENVIRONMENT, Board, progress

PROGRAM = """
import auricle, auricle_edge, platform
assert "site-packages" in auricle.__file__, auricle.__file__
for name in auricle_edge.__all__:
    getattr(auricle_edge, name)
print(platform.machine(), auricle.load_pack("home").identity[:12])
"""


def try_wheel(board: Board, wheel: Path) -> str:
    """Install it beside the locked wheels and use it; what it says of itself. AuricleError: it fails."""
    board.make(progress)
    (board.path / ENVIRONMENT[1:] / "checkout").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=board.path / "tmp") as folder:
        shutil.copy(wheel, folder)
        inside = f"/tmp/{Path(folder).name}/{wheel.name}"
        board.python("-m", "pip", "install", "-q", "--no-index", "--no-deps", "--force-reinstall", inside)
    board.python("-m", "pip", "check")
    version = board.debian.run(f"{ENVIRONMENT}/bin/auricle", "--version").strip()
    board.debian.run(f"{ENVIRONMENT}/bin/auricle", "edge", "run", "--help")
    return f"{version}, {board.python('-I', '-c', PROGRAM).strip()}"


def main(arguments: Sequence[str]) -> int:
    """Try one wheel; returns 0, or 2 with a sentence."""
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        print("arm64: name one wheel, such as make dist leaves in dist/", file=sys.stderr)
        return 2
    try:
        print(try_wheel(Board.from_environment(), Path(arguments[0])))
    except AuricleError as error:
        print(f"arm64: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
