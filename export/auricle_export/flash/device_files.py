"""What is written for one device of a board: its settings file, and a drop-in for the systemd unit."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import msgspec

from auricle.errors import SettingsError
from auricle.wire.kinds import DeviceId
from auricle_export.flash.board import Board, Microphone

STATE = "/var/lib/auricle"

Tables = dict[str, dict[str, object]]


def edge_settings(
    board: Board, device: str | None, *, microphone: str | None = None, wired: bool = False
) -> tuple[dict[str, object], Tables]:
    """The settings that a board's profile gives a device.

    Parameters
    ----------
    device
        Its name; None: it takes the one in its certificate.
    microphone
        Id of a microphone of the profile; None: the profile's own source.
    wired
        Whether buttons and mute switch are connected to the lines that the profile names.

    Returns
    -------
    tuple
        What stands at the top of `edge.toml`, and its tables.

    Raises
    ------
    SettingsError
        The name cannot be one, there is no such microphone, or no line to wire anything to.
    """
    try:
        msgspec.convert(device, DeviceId | None)
    except msgspec.ValidationError as error:
        raise SettingsError(
            f"{json.dumps(device)} cannot be the name of a device: take 4 to 64 lower-case letters, digits and dashes."
        ) from error
    chosen = None if microphone is None else board.microphone_of(microphone)
    if wired and board.gpio is None:
        raise SettingsError(f"The profile of {board.title} names no GPIO lines: nothing can be wired to it.")
    top: dict[str, object] = {} if device is None else {"device": device}
    top |= {
        "state": STATE,
        "pack": board.agent.pack,
        "local": board.agent.local,
        "threads": board.agent.threads,
    }
    tables = {
        "capture": _capture(board, chosen, wired),
        "gate": {
            "hot": board.sensors.hot,
            "too_hot": board.sensors.too_hot,
            "heed_throttling": board.sensors.throttling != "none",
            "zones": list(board.sensors.zones),
            "required": list(board.sensors.required),
        },
        "buttons": _buttons(board, chosen, wired),
    }
    return top, {name: table for name, table in tables.items() if table}


def _capture(board: Board, microphone: Microphone | None, wired: bool) -> dict[str, object]:
    source = board.sound if microphone is None else microphone
    table: dict[str, object] = {"source": source.source}
    if microphone is not None:
        given = {"rate": microphone.rate, "channels": microphone.channels, "channel": microphone.channel}
        table |= {name: value for name, value in given.items() if value is not None}
    if wired and board.gpio is not None and board.gpio.mute is not None:
        table["mute_switch"] = f"gpio:{board.gpio.mute}:low"
    return table


def _buttons(board: Board, microphone: Microphone | None, wired: bool) -> dict[str, object]:
    """The buttons: the one on the microphone's HAT confirms, others where they are wired."""
    confirm = deny = None
    if wired and board.gpio is not None:
        confirm, deny = board.gpio.confirm, board.gpio.deny
    if microphone is not None and microphone.button is not None:
        confirm = microphone.button
    return {name: line for name, line in (("confirm", confirm), ("deny", deny)) if line is not None}


def edge_toml(board: Board, device: str, *, microphone: str | None = None, wired: bool = False) -> str:
    """The text of `edge.toml`; parameters and errors as those of `edge_settings`."""
    return settings_text(
        f"{board.title}: from its profile.", *edge_settings(board, device, microphone=microphone, wired=wired)
    )


def settings_text(comment: str, top: Mapping[str, object], tables: Mapping[str, Mapping[str, object]]) -> str:
    """The text of a settings file, from what stands at its top and its tables."""
    parts = [f"# {comment}\n{_toml(top)}"]
    parts += [f"\n[{name}]\n{_toml(table)}" for name, table in tables.items()]
    return "".join(parts)


def _toml(values: Mapping[str, object]) -> str:
    return "".join(f"{name} = {toml_value(value)}\n" for name, value in values.items())


def toml_value(value: object) -> str:
    """Text, numbers, lists and tables as TOML writes them in one line.

    Raises
    ------
    SettingsError
        It is something else, such as a date.
    """
    if isinstance(value, Mapping):
        inside = ", ".join(f"{toml_value(str(name))} = {toml_value(each)}" for name, each in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(each) for each in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if not isinstance(value, str | int | float):
        raise SettingsError(f"{value} is neither text nor a number, which is all that settings may be.")
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def extras(board: Board, *, microphone: str | None = None, wired: bool = False) -> tuple[str, ...]:
    """The extras of the package that such a device needs; errors as those of `edge_settings`."""
    _, tables = edge_settings(board, "any-device", microphone=microphone, wired=wired)
    gpio = "buttons" in tables or "mute_switch" in tables["capture"]
    return ("edge", "mic", "gpio") if gpio else ("edge", "mic")


def drop_in(board: Board, *, microphone: str | None = None, wired: bool = False) -> str:
    """The text of a drop-in for `auricle-edge.service`: limits, and the GPIO chip where it is used.

    Raises
    ------
    SettingsError
        As for `edge_settings`; or the agent runs in a container on this board, without this unit.
    """
    if board.container_only:
        raise SettingsError(f"On {board.title} the agent runs in a container only: there is no systemd unit for it.")
    service = board.service
    lines = [
        f"# {board.title}: from its profile.",
        "[Service]",
        f"MemoryHigh={service.memory_high_mib}M",
        f"MemoryMax={service.memory_max_mib}M",
        f"TasksMax={service.tasks_max}",
    ]
    if board.gpio is not None and "gpio" in extras(board, microphone=microphone, wired=wired):
        lines.append(f"DeviceAllow=/dev/{board.gpio.chip} rw")
        if board.gpio.group is not None:
            lines.append(f"SupplementaryGroups={board.gpio.group}")
    return "\n".join(lines) + "\n"
