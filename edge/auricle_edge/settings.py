"""What a device's settings file or command line may say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from auricle.errors import SettingsError
from auricle.messages import Count, DeviceId, FleetName
from auricle.settings import from_mapping, read_toml
from auricle.until_signal import broker_of
from auricle_edge.agent import AgentSettings
from auricle_edge.capture.settings import CaptureSettings
from auricle_edge.clips.settings import ClipSettings
from auricle_edge.control.server import ControlSettings
from auricle_edge.detect.settings import DetectSettings
from auricle_edge.events.buttons import ButtonSettings
from auricle_edge.events.settings import EventSettings
from auricle_edge.gate import GateSettings
from auricle_edge.labels.settings import LabelSettings
from auricle_edge.learn_settings import LearnSettings

CONFIG = Path("/etc/auricle/edge.toml")
"""Settings file of an installed device."""


class EdgeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that may be set; each part of the device has a table of its own."""

    device: DeviceId
    state: str
    """Folder for key, models, outbox and clips."""
    fleet: FleetName | None = None
    broker: str | None = None
    coordinator: str | None = None
    """The coordinator's public key, 64 hexadecimal digits; `auricle cloud serve` prints it."""
    speech: str | None = None
    """Folder of labelled recordings to learn from; without, the device listens and learns from what it hears."""
    pack: str = "gsc12"
    pack_key: str | None = None
    """Public key in hex that must have signed the pack."""
    local: str = "crnn-base"
    runtime: str = "auto"
    speaker: str | None = None
    threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    start: str | None = None
    """`pack`, `scratch`, or None for the pack's trained weights where it has some."""
    seed: Count = 0
    capture: CaptureSettings = CaptureSettings()
    detect: DetectSettings = DetectSettings()
    events: EventSettings = EventSettings()
    clips: ClipSettings = ClipSettings()
    labels: LabelSettings = LabelSettings()
    learn: LearnSettings = LearnSettings()
    gate: GateSettings = GateSettings()
    buttons: ButtonSettings = ButtonSettings()
    control: ControlSettings = ControlSettings()

    @property
    def folder(self) -> Path:
        """The state folder."""
        return Path(self.state)


TABLES: dict[str, type[msgspec.Struct]] = {
    "capture": CaptureSettings, "detect": DetectSettings, "events": EventSettings, "clips": ClipSettings,
    "labels": LabelSettings, "learn": LearnSettings, "gate": GateSettings, "buttons": ButtonSettings,
    "control": ControlSettings,
}  # fmt: skip


def read_settings(config: Path | None, given: Mapping[str, object]) -> EdgeSettings:
    """Settings of a file, where one is named, with those of the command line over them.

    Raises
    ------
    SettingsError
        A name that does not exist, with a hint; a value that is not allowed; a fleet without its broker.
    """
    values = {} if config is None else read_toml(config)
    where = "command line" if config is None else str(config)
    for name, kind in TABLES.items():
        table = values.get(name)
        if isinstance(table, dict):
            values[name] = from_mapping(kind, table, f"{where}, table [{name}]")
    capture = given.get("source")
    rest = {name: value for name, value in given.items() if name != "source"}
    if capture is not None:
        before = values.get("capture", CaptureSettings())
        assert isinstance(before, CaptureSettings)
        values["capture"] = msgspec.structs.replace(before, source=str(capture))
    settings = from_mapping(EdgeSettings, {**values, **rest}, where)
    fleet = {"fleet": settings.fleet, "broker": settings.broker, "coordinator": settings.coordinator}
    missing = [name for name, value in fleet.items() if value is None]
    if missing and len(missing) < len(fleet):
        raise SettingsError(f"{where}: to take part in a fleet, say {' and '.join(missing)} too.")
    if missing and settings.speech is not None:
        raise SettingsError(f"{where}: speech is for training in a fleet: say fleet, broker and coordinator too.")
    return settings


def agent_settings(settings: EdgeSettings) -> AgentSettings | None:
    """What the agent is told; None for a device without a fleet. SettingsError: the key or the URL is none."""
    if settings.fleet is None or settings.broker is None or settings.coordinator is None:
        return None
    try:
        key = bytes.fromhex(settings.coordinator)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise SettingsError("--coordinator takes the 64 hexadecimal digits that auricle cloud serve prints.")
    address = broker_of(settings.broker, settings.device, settings.folder)
    return AgentSettings(settings.device, settings.fleet, address, settings.folder, key)
