"""Packs that a suite builds for itself: once, into its own folder, before anything runs (`[packs.NAME]`)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from auricle import __version__
from auricle.errors import SettingsError, StorageError, extra_command, nearest
from auricle.files import describe, read_kept
from auricle.packs.shipped import SHIPPED
from auricle_fleet.results.live import Silent
from auricle_fleet.suite.fingerprint import content_hash
from auricle_fleet.suite.parts import Condition, Method, PackTable, Values
from auricle_fleet.suite.plan import Suite

PACKS = "packs"
"""Folder of a suite's packs, in its own."""
NEEDS = ("auricle_export", "torch", "onnxscript")
"""Without which no pack can be built."""

_Table = TypeVar("_Table", Method, Condition)


@dataclass(frozen=True)
class OwnPack:
    """A pack that a suite builds."""

    name: str
    table: PackTable
    file: Path
    """Its table is in the name: one that says something else has another file."""

    def describe(self) -> str:
        """Say what it holds, and which it is once it is there."""
        which = f"; SHA-256 {content_hash(self.file)[:12]}" if self.file.exists() else ""
        return f"{self.name} ({self.table.describe()}{which})"


def own_packs(suite: Suite, folder: Path) -> tuple[OwnPack, ...]:
    """The packs of a suite's tables that its runs name, in the suite's folder."""
    named = {settings.get("pack") for settings in _settings(suite)}
    return tuple(
        OwnPack(name, table, folder / PACKS / f"{name}-{_key(table)}.tar.zst")
        for name, table in suite.packs.items()
        if name in named
    )


def _settings(suite: Suite) -> Iterator[Values]:
    yield suite.settings
    yield from (method.settings for method in suite.methods)
    yield from (condition.settings for condition in suite.conditions)


def _key(table: PackTable) -> str:
    """Short hash of what decides the pack: its table, modules of the user's own, and this version."""
    own = (Path(model.rpartition(":")[0]) for model in (*table.models, table.plugin) if ":" in model)
    files = [read_kept(path) for path in own if path.is_file()]
    return hashlib.sha256(msgspec.json.encode((__version__, table, files))).hexdigest()[:8]


def with_packs(suite: Suite, packs: Sequence[OwnPack], where: str) -> Suite:
    """The suite with the files of its packs where its settings name them.

    Raises
    ------
    SettingsError
        A setting names a pack that is neither of the suite, nor shipped, nor a file.
    """
    files = {pack.name: str(pack.file) for pack in packs}

    def resolve(settings: Values) -> Values:
        pack = settings.get("pack")
        if not isinstance(pack, str):
            return settings
        if pack not in files and pack not in SHIPPED and not Path(pack).suffix and not Path(pack).exists():
            raise SettingsError(f'{where}: there is no pack "{pack}": {nearest(pack, (*suite.packs, *SHIPPED))}')
        return {**settings, "pack": files.get(pack, pack)}

    def resolve_all(tables: Sequence[_Table]) -> tuple[_Table, ...]:
        return tuple(msgspec.structs.replace(table, settings=resolve(table.settings)) for table in tables)

    return msgspec.structs.replace(
        suite,
        settings=resolve(suite.settings),
        methods=resolve_all(suite.methods),
        conditions=resolve_all(suite.conditions),
    )


def build_command(pack: OwnPack, folder: Path) -> list[str]:
    """The command that writes NAME.tar.zst into a folder: a process of its own, for building needs PyTorch."""
    table = pack.table
    options = {
        "model": ",".join(table.models),
        "labels": ",".join(table.words),
        "plugin": table.plugin,
        "name": pack.name,
        "out": str(folder),
    }
    options |= {"loss": table.loss} if table.loss != "ce" else {}
    options |= {"window": f"{table.window:g}"} if table.window != 1 else {}
    given = [f"--{option}={value}" for option, value in options.items()]
    return [sys.executable, "-m", "auricle", "export", "build", *given, *["--bavd"] * table.bavd]


async def build_missing(packs: Sequence[OwnPack], view: Silent) -> None:
    """Build the packs that are not there yet, one after the other; cancelled, nothing is left of the one under way.

    Raises
    ------
    SettingsError
        One cannot be built: what building needs is not installed, or its table says what cannot be.
    StorageError
        The folder cannot be written.
    """
    for pack in packs:
        if pack.file.exists():
            continue
        for needed in NEEDS:
            if importlib.util.find_spec(needed) is None:
                raise SettingsError(
                    f'The suite builds the pack "{pack.name}", which needs {needed}, which is not installed: '
                    f"{extra_command('export')}."
                )
        view.say(f"builds the pack {pack.describe()}")
        try:
            pack.file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=pack.file.parent) as scratch:
                await _build(pack, Path(scratch), view)
                (Path(scratch) / f"{pack.name}.tar.zst").replace(pack.file)
        except OSError as error:
            raise StorageError(describe(error, pack.file)) from error


async def _build(pack: OwnPack, folder: Path, view: Silent) -> None:
    """Run the command that builds a pack; SettingsError with what it said where it fails."""
    process = await asyncio.create_subprocess_exec(
        *build_command(pack, folder),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    last = ""
    try:
        async for line in process.stderr:
            last = line.decode(errors="replace").strip() or last
            if last.startswith("compiled"):
                view.say(last)
        code = await process.wait()
    finally:
        if process.returncode is None:  # interrupted: it compiles in processes of its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            await process.wait()
    if code:
        raise SettingsError(f'The pack "{pack.name}" of the suite cannot be built. {last.removeprefix("auricle: ")}')
