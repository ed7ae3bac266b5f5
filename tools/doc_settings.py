"""Blocks of settings in the pages, read by what reads such a file."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from auricle.errors import AuricleError
from auricle.settings import read_toml

READERS = {
    "docs/bundles.md": "fleet",
    "docs/coordinator.md": "coordinator",
    "docs/emulation.md": "run",
    "docs/pretrain.md": "recipe",
    "docs/quick-start-laptop.md": "run",
    "docs/suites.md": "suite",
    "docs/testing.md": "any",
}
"""Whose settings a page shows; of all others they are those of a device."""
BESIDE = {"root.json": "{}", "pack.pub": "0" * 64, "wifi.txt": "a passphrase"}
"""Files that settings name, and what is in them here."""

STANDS_FOR = (
    (r'"64 hex(adecimal)? digits[^"]*"', f'"{"0" * 64}"'),
    (r"AAAA\.\.\.", "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
    (r"\$6\$\.\.\.", f"$6$salt${'0' * 86}"),
)
"""What pages write for a key or a hash, and one."""


def refusal(page: str, text: str) -> str:
    """Why settings of a page are refused; empty where they are read.

    Parameters
    ----------
    page
        Its path in the repository.
    text
        The block. A device needs no state folder here.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, content in BESIDE.items():
            Path(folder, name).write_text(content, encoding="utf-8")
        file = Path(folder, "settings.toml")
        for written, one in STANDS_FOR:
            text = re.sub(written, lambda _, one=one: one, text)
        file.write_text(text, encoding="utf-8")
        try:
            _read(READERS.get(page, "device"), file)
        except AuricleError as error:
            return str(error).replace(f"{folder}/", "")
    return ""


def _read(kind: str, file: Path) -> None:
    """Read a file of settings; AuricleError where it is refused."""
    values = read_toml(file)
    if values.keys() == {"project"}:  # of a package, for those who build it
        return
    if kind == "device":
        from auricle_edge.settings import read_settings

        read_settings(file, {} if "state" in values else {"state": str(file.parent)})
    elif kind == "coordinator":
        from auricle_cloud.commands.coordinator_settings import read_coordinator

        read_coordinator(file, {})
    elif kind == "run":
        from auricle_fleet.commands.run_commands import read_settings as read_run

        read_run(file, {})
    elif kind == "suite":
        from auricle_fleet.suite.plan import cells, read_suite

        cells(read_suite(str(file))[0], str(file))
    elif kind == "recipe":
        from auricle_export.pretrain.recipe import load_recipe

        load_recipe(str(file))
    elif kind == "fleet":
        from auricle_export.flash.fleet_file import load_fleet

        load_fleet(file)
