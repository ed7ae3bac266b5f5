"""The files of a bundle for a board, a system and a fleet, with what it tells its devices."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from auricle import __version__
from auricle.errors import SettingsError
from auricle.files import read_kept
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.shipped import SHIPPED
from auricle.wire.bundle import Entry, Manifest
from auricle_export.flash.board import Board, System
from auricle_export.flash.bundle.archive import Part, name_in_tar, store_zip
from auricle_export.flash.bundle.auricle_wheel import auricle_wheel
from auricle_export.flash.bundle.locks import EXTRAS, Target, WheelError, read_lock
from auricle_export.flash.bundle.wheelhouse import Progress, fetch
from auricle_export.flash.device_files import drop_in, edge_settings, settings_text
from auricle_export.flash.edge_names import TABLES
from auricle_export.flash.fleet import Fleet

PACK = "/opt/auricle/current/pack.tar.zst"
"""Where a device finds the pack of the version that is active."""


def local_model(board: Board, fleet: Fleet, pack: Pack) -> str | None:
    """The model of a device's own: that of the fleet's settings, or of the profile.

    Where the fleet's pack has no model of the profile's name it is the pack's plug-in on a board whose profile names
    the plug-in of its own pack, and else None: the device takes the pack's larger model.

    Raises
    ------
    PackError
        The pack has no model of the name that the fleet's settings ask for.
    """
    asked = fleet.device.settings.get("local")
    if asked is None and fleet.pack is not None and board.agent.local not in pack.tables:
        small = board.agent.local == load_pack(board.agent.pack).manifest.plugin
        return pack.manifest.plugin if small else None
    named = str(asked or board.agent.local)
    pack.table(named)
    return named


def settings_of(board: Board, fleet: Fleet, pack: Pack) -> str:
    """The text of `edge.toml`: the profile's settings, the fleet's own, and nothing that is one device's, or secret.

    Raises
    ------
    PackError
        The pack has no model of the name that the fleet's settings ask for.
    SettingsError
        The profile has no such microphone, or no line to wire anything to.
    """
    device = fleet.device
    top, tables = edge_settings(board, None, microphone=device.microphone, wired=device.wired)
    top |= {"pack": PACK, "fleet": fleet.name, "broker": fleet.broker, "coordinator": fleet.coordinator}
    local = local_model(board, fleet, pack)
    top = {name: value for name, value in top.items() if name != "local"} | ({} if local is None else {"local": local})
    if fleet.pack_key is not None:
        top["pack_key"] = fleet.pack_key
    for name, value in device.settings.items():
        if name in TABLES:
            tables[name] = {**tables.get(name, {}), **value}
        else:
            top[name] = value
    return settings_text(f"{board.title} in the fleet {fleet.name}: from its profile and fleet.toml.", top, tables)


def claim_environment(fleet: Fleet) -> str:
    """The text of `claim.env`, which systemd reads for the claim."""
    return f"AURICLE_SERVER={fleet.server}\nAURICLE_CA_PIN={fleet.ca_pin}\n"


INSTALLATION = "auricle_edge/ota/"
"""Where in Auricle's wheel the part is that puts it on a device; taken from there as files."""
GUARD = f"{INSTALLATION}slots/"
"""The modules that become the bundle's `slots.py`."""
SHARED = ("auricle/packs/plain_tar.py",)
"""Modules of core that go with them."""
RUN_GUARD = b"""\
import os
import sys

AGAIN = "AURICLE_GUARD_AGAIN"

try:
    from auricle_edge.ota.slots.commands import main
except ImportError:  # the archive was replaced between two of its modules: begin again with the new one, once
    if AGAIN in os.environ:
        raise
    os.environ[AGAIN] = "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
os.environ.pop(AGAIN, None)
sys.exit(main())
"""
AGENT = "auricle_edge/service/auricle-edge.service"
SCRIPT = 0o755


@dataclass(frozen=True)
class Contents:
    """What goes into a bundle."""

    manifest: Manifest
    parts: dict[str, Part]
    """By path, without manifest and signature."""


def refuse_containers(board: Board, system: System) -> None:
    """SettingsError: the agent runs in a container on this system, where nothing is installed."""
    if system.container is not None:
        raise SettingsError(
            f"On {board.title} with {system.title} the agent runs in a container only: no bundle can be made for it."
        )


def contents_of(board: Board, system: System, fleet: Fleet, wheels: Path, progress: Progress) -> Contents:
    """Everything that goes into a bundle.

    Parameters
    ----------
    wheels
        The wheelhouse: what is missing in it is fetched.

    Raises
    ------
    AuricleError
        What cannot be had, in one sentence.
    """
    refuse_containers(board, system)
    target = Target.of(system)
    pack, packed = pack_of(board, fleet)
    parts = {
        "pack.tar.zst": Part(packed),
        "etc/edge.toml": Part(settings_of(board, fleet, pack).encode()),
        "etc/claim.env": Part(claim_environment(fleet).encode()),
        "install": Part(_installer(system), SCRIPT),
        f"systemd/{Path(AGENT).name}.d/board.conf": Part(_drop_in(board, fleet)),
    }
    if fleet.update_root is not None:
        parts["tuf/root.json"] = Part(_root_metadata(Path(fleet.update_root)))
    progress("building Auricle's wheel", 0, 1)
    name, own = auricle_wheel()
    parts |= _installation(own)
    fetched = fetch(target, wheels, progress)
    parts |= {f"wheels/{name_in_tar(path.name)}": Part(path) for path in fetched.values()}
    parts[f"wheels/{name}"] = Part(own)
    parts["requirements.txt"] = Part(_requirements(target, own))
    manifest = Manifest(
        version=f"{__version__}.post{fleet.revision}" if fleet.revision else __version__,
        board=board.name,
        os=system.id,
        base=system.base,
        python=system.python,
        architecture=board.architecture,
        fleet=fleet.name,
        pack=pack.identity,
        files=entries(parts),
    )
    return Contents(manifest, parts)


def entries(parts: Mapping[str, Part]) -> tuple[Entry, ...]:
    """What a manifest lists of files."""
    return tuple(
        Entry(path, part.size, part.sha256, 0o755 if part.mode == SCRIPT else 0o644)
        for path, part in sorted(parts.items())
    )


def pack_of(board: Board, fleet: Fleet) -> tuple[Pack, bytes]:
    """The pack, and its bytes as they are; those of a folder are packed.

    Raises
    ------
    AuricleError
        It is not sound, has not the device's own model, or is not signed by the fleet's key.
    """
    source = fleet.pack or board.agent.pack
    pack = load_pack(source)
    local_model(board, fleet, pack)
    if fleet.pack_key is not None and (pack.signature is None or pack.signature.key != fleet.pack_key):
        raise SettingsError(
            f"The pack {source} is not signed by pack_key, and the devices would refuse it: "
            f"auricle export sign {source} --key KEY"
        )
    if source in SHIPPED:
        return pack, (resources.files("auricle") / "packs" / f"{source}.tar.zst").read_bytes()
    return pack, read_kept(Path(source)) if Path(source).is_file() else pack_bytes(pack)


def _drop_in(board: Board, fleet: Fleet) -> bytes:
    return drop_in(board, microphone=fleet.device.microphone, wired=fleet.device.wired).encode()


def _installer(system: System) -> bytes:
    script = resources.files("auricle_export.flash.bundle").joinpath("install.sh").read_text("utf-8")
    return script.replace("@PYTHON@", system.python).encode()


def guard_file(modules: Mapping[str, bytes]) -> bytes:
    """The guard as one file that Python runs: an archive of its modules, whatever it is called.

    Boards have it as `/opt/auricle/slots.py`, the name that the units and the updaters of all versions know.

    Parameters
    ----------
    modules
        The guard's own, by their path in Auricle's wheel. The packages above them are empty in the archive: the guard
        runs without the rest of the agent.
    """
    above = {f"{name}/__init__.py": b"" for name in ("auricle", "auricle/packs", "auricle_edge", "auricle_edge/ota")}
    listed = {name: modules[name] for name in sorted(modules)}
    return store_zip({"__main__.py": RUN_GUARD, **above, **listed}, b"#!/usr/bin/python3\n")


def _installation(wheel: bytes) -> dict[str, Part]:
    """The device's guard and its units, from Auricle's wheel.

    Raises
    ------
    WheelError
        The wheel has none.
    """
    units = f"{INSTALLATION}units/"
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        names = archive.namelist()
        of_guard = [name for name in names if name.startswith(GUARD) and name.endswith(".py")]
        modules = {name: archive.read(name) for name in (*of_guard, *(each for each in SHARED if each in names))}
        found = [name for name in names if name.startswith(units)]
        needed = {f"{GUARD}commands.py": of_guard, **{each: each in modules for each in SHARED}}
        needed |= {units: found, AGENT: AGENT in names}
        missing = [name for name, there in needed.items() if not there]
        if missing:
            raise WheelError(f"Auricle's wheel has no {missing[0]}: install auricle again.")
        parts = {f"systemd/{Path(name).name}": Part(archive.read(name)) for name in (*found, AGENT)}
        return {"slots.py": Part(guard_file(modules), SCRIPT), **parts}


def _requirements(target: Target, wheel: bytes) -> bytes:
    """All wheels of the bundle, as pip takes them."""
    lines = [str(line) for line in read_lock(target.lock).values()]
    own = f"auricle[{','.join(EXTRAS)}]=={__version__} --hash=sha256:{hashlib.sha256(wheel).hexdigest()}"
    comment = "# pip install --no-index --find-links wheels --require-hashes -r requirements.txt"
    return "\n".join([comment, own, *lines, ""]).encode()


def _root_metadata(path: Path) -> bytes:
    """The first root metadata of the updates. SettingsError: it is not root metadata."""
    try:
        content = read_kept(path)
        kind = json.loads(content)["signed"]["_type"]
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}).") from error
    except (ValueError, TypeError, KeyError, RecursionError):
        kind = None
    if kind != "root":
        raise SettingsError(f"{path} is not root metadata of updates: auricle cloud releases init writes one.")
    return content
