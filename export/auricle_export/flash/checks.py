"""Whether what a profile says fits together: a system and its Python, limits and memory, lines and their chip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from auricle.errors import nearest
from auricle.packs.pack import load_pack
from auricle.packs.shipped import SHIPPED
from auricle_export.flash.board import OLDEST_GLIBC, PYTHONS, RELEASES, Board, Gpio, Microphone, System
from auricle_export.flash.toml_lines import Path

Objection = tuple[Path, str]
"""What it is about, and what is wrong, in a sentence."""

LEAST_FOR_TRAINING = 128
"""MiB: a round of mutual learning takes 114."""
DEFAULT_LINES = ("confirm", "deny", "mute", "led")


def objections(board: Board) -> Iterator[Objection]:
    """Everything in a profile that contradicts something else in it."""
    yield from _find_repeated("os", [system.id for system in board.os])
    yield from _find_repeated("microphone", [microphone.id for microphone in board.microphone])
    for index, system in enumerate(board.os):
        yield from _system(system, board.architecture, ("os", index))
        if system.first_boot == "firstrun" and board.boot is None:
            yield ("os", index, "first_boot"), "firstrun is Raspberry Pi OS's: it needs a table [boot], or take push"
    yield from _agent(board)
    yield from _limits(board)
    yield from _sensors(board)
    if board.gpio is not None:
        yield from _lines(board.gpio)
    for index, microphone in enumerate(board.microphone):
        yield from _microphone(microphone, board, ("microphone", index))


def _find_repeated(table: str, ids: Sequence[str]) -> Iterator[Objection]:
    for index, name in enumerate(ids):
        if name in ids[:index]:
            yield (table, index, "id"), f'the id "{name}" is given twice'


def _system(system: System, architecture: str, path: Path) -> Iterator[Objection]:
    base = system.container or system.base
    where = "container" if system.container else "base"
    release = RELEASES[base]
    oldest, newest = (".".join(map(str, version)) for version in PYTHONS)
    python = ".".join(map(str, release.python))
    if not release.supported:
        advice = 'run the agent in a container (container = "bookworm")' if where == "base" else 'take "bookworm"'
        yield (
            (*path, where),
            f"{release.title} has Python {python}, and the agent needs {oldest} to {newest}: {advice}",
        )
        return
    if system.python != python:
        yield (*path, "python"), f'{release.title} has Python {python}: write python = "{python}"'
    tag, _, platform = system.wheel_tag.split("-")
    glibc, _, machine = platform.removeprefix("manylinux_2_").partition("_")
    wanted = "cp" + python.replace(".", "")
    if not system.wheel_tag.startswith(f"{wanted}-{wanted}-"):
        yield (*path, "wheel_tag"), f"Python {python} takes wheels of {wanted}, not of {tag}"
    if machine != architecture:
        yield (*path, "wheel_tag"), f"the board is {architecture}, and the wheels are for {machine}"
    if int(glibc) > release.glibc:
        yield (
            (*path, "wheel_tag"),
            f"wheels for glibc 2.{glibc} do not load on {release.title}, which has 2.{release.glibc}",
        )
    if int(glibc) < OLDEST_GLIBC:
        yield (*path, "wheel_tag"), f"onnxruntime has no wheels for glibc before 2.{OLDEST_GLIBC}"


def _agent(board: Board) -> Iterator[Objection]:
    if board.agent.threads > board.cores:
        yield ("agent", "threads"), f"{board.agent.threads} threads are more than the board's {board.cores} cores"
    if board.agent.pack not in SHIPPED:
        yield ("agent", "pack"), f'there is no shipped pack "{board.agent.pack}": {nearest(board.agent.pack, SHIPPED)}'
        return
    known = architectures(board.agent.pack)
    if board.agent.local not in known:
        hint = nearest(board.agent.local, known)
        yield ("agent", "local"), f'the pack {board.agent.pack} has no model "{board.agent.local}": {hint}'


@lru_cache
def architectures(pack: str) -> tuple[str, ...]:
    """The models in a shipped pack."""
    return tuple(load_pack(pack).manifest.architectures)


def _limits(board: Board) -> Iterator[Objection]:
    high, most, least_memory = board.service.memory_high_mib, board.service.memory_max_mib, min(board.memory_mib)
    if high >= most:
        yield (
            ("service", "memory_high_mib"),
            f"{high} MiB must be less than memory_max_mib, {most}: the kernel slows down before it ends",
        )
    if high < LEAST_FOR_TRAINING:
        yield (
            ("service", "memory_high_mib"),
            f"{high} MiB are too few to train in: give at least {LEAST_FOR_TRAINING}",
        )
    if most > least_memory // 2:
        yield (
            ("service", "memory_max_mib"),
            f"{most} MiB are more than half of the {least_memory} MiB that the smallest of these boards has",
        )


def _sensors(board: Board) -> Iterator[Objection]:
    sensors = board.sensors
    if not sensors.hot < sensors.too_hot:
        yield ("sensors", "hot"), f"{sensors.hot:g} °C must be less than too_hot, {sensors.too_hot:g} °C"
    for index, name in enumerate(sensors.required):
        path: Path = ("sensors", "required", index)
        if name in ("power", "battery") and sensors.supply == "none":
            yield path, f'"{name}" can never be read where supply = "none", so the device would never train'
        if name == "throttling" and sensors.throttling == "none":
            yield path, '"throttling" can never be read where throttling = "none", so the device would never train'


def _lines(gpio: Gpio) -> Iterator[Objection]:
    seen: dict[str, str] = {}
    for name in DEFAULT_LINES:
        line: str | None = getattr(gpio, name)
        if line is None:
            continue
        yield from _line(line, gpio, ("gpio", name))
        if line in seen:
            yield ("gpio", name), f"the line {line} is that of {seen[line]} already"
        seen[line] = name


def _line(line: str, gpio: Gpio, path: Path) -> Iterator[Objection]:
    chip, _, number = line.partition(":")
    if chip != gpio.chip:
        yield path, f"{line} is not on {gpio.chip}, the chip of the header"
    elif int(number) >= gpio.lines:
        yield path, f"{gpio.chip} has lines 0 to {gpio.lines - 1}, not {number}"


def _microphone(microphone: Microphone, board: Board, path: Path) -> Iterator[Objection]:
    for name in ("button", "led"):
        line: str | None = getattr(microphone, name)
        if line is not None and board.gpio is None:
            yield (*path, name), "a line needs a table [gpio] that describes its chip"
        elif line is not None and board.gpio is not None:
            yield from _line(line, board.gpio, (*path, name))
    if microphone.overlay is not None and board.boot is None:
        yield (*path, "overlay"), "an overlay needs a table [boot] that says where config.txt is"
    if microphone.channel is not None and microphone.channel >= (microphone.channels or 2):
        yield (
            (*path, "channel"),
            f"channel {microphone.channel} is not among the {microphone.channels or 2} that are opened, counted from 0",
        )
