"""What a device's settings file or command line may say."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.errors import SettingsError, because
from auricle.files import read_kept
from auricle.mqtt_link.private_link import FOLDER, IdentityFiles, broker_of
from auricle.packs.shipped import DEFAULT_PACK
from auricle.settings import from_mapping, read_toml
from auricle.wire.kinds import Count, DeviceId, FleetName
from auricle_edge.board.gate import GateSettings
from auricle_edge.clips.choice import ClipSettings
from auricle_edge.control.server import ControlSettings
from auricle_edge.fleet.agent_context import AgentSettings, RemoteSettings, read_fleet_record
from auricle_edge.fleet.report.reporter import ReportSettings
from auricle_edge.labels.settings import LabelSettings
from auricle_edge.listening.assist.settings import AssistSettings
from auricle_edge.listening.capture.settings import CaptureSettings
from auricle_edge.listening.detect.settings import DetectTable
from auricle_edge.listening.events.buttons import ButtonSettings
from auricle_edge.listening.events.outputs import EventSettings
from auricle_learning.training.learn_settings import LearnSettings

log = logging.getLogger(__name__)

PATIENCE_FACTOR = 5.0
"""How many times the healthy time a new version has to get healthy."""

KeyText = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class UpdateSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[updates]`."""

    url: str | None = None
    """Where `metadata/` and `targets/` lie; None: `v1/updates` of the server that gave out the certificate."""
    root: str | None = None
    """File of the first signed root; None: `tuf/root.json` of the installed bundle. Without one: no updates."""
    bundle_key: KeyText | None = None
    """Public key in hex that must have signed a bundle, besides those of the signed metadata."""
    check_every: Annotated[float, Meta(ge=60)] | None = None
    """Seconds between two looks for a newer bundle without being asked; None: only when the coordinator asks."""
    health_seconds: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    """For so long all has to be well until what is on trial stays; five times as long, and it goes."""


class EdgeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that may be set; each part of the device has a table of its own."""

    device: DeviceId | None = None
    """None: the name in the certificate, once there is one."""
    state: str
    """Folder for key, models, outbox and clips."""
    fleet: FleetName | None = None
    broker: str | None = None
    coordinator: str | None = None
    """The coordinator's public key, 64 hexadecimal digits; `auricle cloud serve` prints it."""
    data: str | None = None
    """Folder of labelled recordings to learn from; without, the device listens and learns from what it hears."""
    pack: str = DEFAULT_PACK
    pack_key: str | None = None
    """Public key in hex that must have signed the pack."""
    local: str | None = None
    """Name of the device's own model; None: the pack's larger one."""
    runtime: str = "auto"
    speaker: str | None = None
    threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    start: str | None = None
    """`pack`, `scratch`, or None for the pack's trained weights where it has some."""
    seed: Count = 0
    capture: CaptureSettings = CaptureSettings()
    detect: DetectTable = DetectTable()
    events: EventSettings = EventSettings()
    assist: AssistSettings = AssistSettings()
    clips: ClipSettings = ClipSettings()
    labels: LabelSettings = LabelSettings()
    learn: LearnSettings = LearnSettings()
    gate: GateSettings = GateSettings()
    buttons: ButtonSettings = ButtonSettings()
    control: ControlSettings = ControlSettings()
    updates: UpdateSettings = UpdateSettings()
    report: ReportSettings = ReportSettings()
    remote: RemoteSettings = RemoteSettings()

    @property
    def name(self) -> str:
        """The device's name; SettingsError while it has none."""
        if self.device is None:
            raise SettingsError(
                f"This device has no name: claim a certificate for {self.folder}, or say device in its settings."
            )
        return self.device

    @property
    def folder(self) -> Path:
        """The state folder."""
        return Path(self.state)


TABLES: dict[str, type[msgspec.Struct]] = {
    "capture": CaptureSettings,
    "detect": DetectTable,
    "events": EventSettings,
    "assist": AssistSettings,
    "clips": ClipSettings,
    "labels": LabelSettings,
    "learn": LearnSettings,
    "gate": GateSettings,
    "buttons": ButtonSettings,
    "control": ControlSettings,
    "updates": UpdateSettings,
    "report": ReportSettings,
    "remote": RemoteSettings,
}


NOT_FIELDS = ("source", "report_hearing", "home")
"""Names on the command line that stand for values of tables."""
HOME_CARRIED = 0.25
"""`[learn] carried` of a device in a home, where the file has none: a few people teach it (docs/gate.md)."""


def read_settings(config: Path | None, given: Mapping[str, object]) -> EdgeSettings:
    """Settings of a file, where one is named, with those of the command line over them.

    Raises
    ------
    SettingsError
        A name that does not exist, with a hint; a value that is not allowed; a fleet without its broker; another
        device than the one in the certificate.
    """
    values = {} if config is None else read_toml(config)
    where = "command line" if config is None else str(config)
    if "speech" in values and "data" not in values:
        values["data"] = values.pop("speech")
        log.warning("%s: speech is now data; the old name goes with the next version.", where)
    if given.get("home") and isinstance(learn := values.setdefault("learn", {}), dict):
        learn.setdefault("carried", HOME_CARRIED)
    for name, kind in TABLES.items():
        table = values.get(name)
        if isinstance(table, dict):
            values[name] = from_mapping(kind, table, f"{where}, table [{name}]")
    capture, reports = given.get("source"), given.get("report_hearing")
    rest = {name: value for name, value in given.items() if name not in NOT_FIELDS}
    if capture is not None:
        heard = values.get("capture", CaptureSettings())
        assert isinstance(heard, CaptureSettings)
        values["capture"] = msgspec.structs.replace(heard, source=str(capture))
    if reports:
        before = values.get("report", ReportSettings())
        assert isinstance(before, ReportSettings)
        values["report"] = msgspec.structs.replace(before, hearing=True)
    known = {field.encode_name for field in msgspec.structs.fields(EdgeSettings)}
    if "state" not in {**values, **rest} and {**values, **rest}.keys() <= known:
        raise SettingsError(f"{where}: name the device's folder: --state FOLDER, or state in its settings file.")
    settings = _with_fleet(_with_name(from_mapping(EdgeSettings, {**values, **rest}, where), where))
    fleet = {"fleet": settings.fleet, "broker": settings.broker, "coordinator": settings.coordinator}
    missing = [name for name, value in fleet.items() if value is None]
    if missing and len(missing) < len(fleet):
        raise SettingsError(f"{where}: to take part in a fleet, say {' and '.join(missing)} too.")
    if missing and settings.data is not None:
        raise SettingsError(f"{where}: data is for training in a fleet: say fleet, broker and coordinator too.")
    return settings


def _with_fleet(settings: EdgeSettings) -> EdgeSettings:
    """The settings with what the device was told of its fleet when it claimed, where they name no other fleet."""
    told = read_fleet_record(settings.folder)
    if told is None or settings.fleet not in (None, told.fleet):
        return settings
    return msgspec.structs.replace(
        settings,
        fleet=told.fleet,
        broker=settings.broker or told.broker,
        coordinator=settings.coordinator or told.coordinator,
    )


def _with_name(settings: EdgeSettings, where: str) -> EdgeSettings:
    """The settings with the name in the certificate, where there is one that this user may read."""
    certificate = IdentityFiles(settings.folder / FOLDER).certificate
    try:
        if not certificate.is_file():
            return settings
        named = name_in_certificate(certificate)
    except PermissionError:
        return settings
    except OSError as error:
        raise SettingsError(f"{where}: the folder {settings.folder} cannot be read: {because(error)}.") from error
    if settings.device not in (None, named):
        raise SettingsError(
            f"{where}: device is {settings.device}, and the certificate {certificate} is for {named}: leave device out."
        )
    return msgspec.structs.replace(settings, device=named)


def name_in_certificate(certificate: Path) -> str:
    """The name in a device's certificate; SettingsError: it has no name."""
    from cryptography import x509  # not needed for listening
    from cryptography.x509.oid import NameOID

    from auricle.wire.claims import UNREADABLE

    try:
        subject = x509.load_pem_x509_certificates(read_kept(certificate))[0].subject
        names = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        return msgspec.convert(names[0] if len(names) == 1 else "", DeviceId)
    except (*UNREADABLE, IndexError) as error:
        raise SettingsError(f"{certificate} is not a device's certificate ({error}): claim one again.") from error


def agent_settings(settings: EdgeSettings) -> AgentSettings | None:
    """What the agent is told; None for a device without a fleet. SettingsError: no name, or no valid key or URL."""
    name = settings.name
    if settings.fleet is None or settings.broker is None or settings.coordinator is None:
        return None
    try:
        key = bytes.fromhex(settings.coordinator)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise SettingsError("--coordinator takes the 64 hexadecimal digits that auricle cloud serve prints.")
    address = broker_of(settings.broker, name, settings.folder)
    return AgentSettings(name, settings.fleet, address, settings.folder, key)
