"""A board's profile, what `firmware-configs/*.toml` may say; and the systems that boards run."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from auricle.errors import SettingsError, nearest
from auricle.packs.shipped import DEFAULT_PACK

Base = Literal["buster", "bullseye", "bookworm", "trixie", "bionic", "focal", "jammy", "noble"]

PYTHONS = ((3, 10), (3, 13))
"""Oldest and newest Python that the agent runs on."""
OLDEST_GLIBC = 28
"""Minor version of glibc 2 for which onnxruntime has wheels."""


class Release(NamedTuple):
    """A release of a distribution."""

    title: str
    python: tuple[int, int]
    glibc: int
    """Minor version of glibc 2."""

    @property
    def supported(self) -> bool:
        """Whether the agent runs on its Python."""
        return PYTHONS[0] <= self.python <= PYTHONS[1]


RELEASES: dict[Base, Release] = {
    "buster": Release("Debian 10 (buster)", (3, 7), 28),
    "bullseye": Release("Debian 11 (bullseye)", (3, 9), 31),
    "bookworm": Release("Debian 12 (bookworm)", (3, 11), 36),
    "trixie": Release("Debian 13 (trixie)", (3, 13), 41),
    "bionic": Release("Ubuntu 18.04 (bionic)", (3, 6), 27),
    "focal": Release("Ubuntu 20.04 (focal)", (3, 8), 31),
    "jammy": Release("Ubuntu 22.04 (jammy)", (3, 10), 35),
    "noble": Release("Ubuntu 24.04 (noble)", (3, 12), 39),
}


Id = Annotated[
    str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,31}\Z", description="lower-case letters, digits, dots and dashes")
]
Text = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]{1,300}\Z", description="one line of text")]
Python = Annotated[str, Meta(pattern=r"^3\.\d{1,2}\Z", description='a version such as "3.11"')]
WheelTag = Annotated[
    str,
    Meta(
        pattern=r"^cp3\d{1,2}-cp3\d{1,2}-manylinux_2_\d{1,2}_[a-z0-9_]{3,10}\Z",
        description='a tag such as "cp311-cp311-manylinux_2_28_aarch64"',
    ),
]
Chip = Annotated[str, Meta(pattern=r"^gpiochip\d{1,2}\Z", description='a chip such as "gpiochip0"')]
Line = Annotated[str, Meta(pattern=r"^gpiochip\d{1,2}:\d{1,3}\Z", description='a line such as "gpiochip0:17"')]
Source = Annotated[
    str,
    Meta(
        pattern=r"^(?!arecord:(?:plug)?hw:(?:CARD=)?\d)"
        r"(?:mic(?::[^\x00-\x1f\x7f]{1,100})?|arecord(?::[^\x00-\x1f\x7f]{1,100})?"
        r"|alsa:(?:CARD=(?!\d+(?:,|\Z))[A-Za-z0-9_-]{1,15}|usb=[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4})(?:,DEV=\d{1,2})?)\Z",
        description='a source that keeps its name, such as "alsa:CARD=Device", "alsa:usb=0d8c:0014" or "mic:NAME"',
    ),
]
BootLine = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_.,=:@/+-]{1,100}\Z", description='one parameter such as "dtparam=i2s=on"')
]
Package = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.+-]{1,63}\Z", description="the name of a Debian package")]
Mebibytes = Annotated[int, Meta(ge=32, le=1 << 20, description="whole MiB, from 32")]
Celsius = Annotated[float, Meta(ge=-40, le=125, description="degrees Celsius from -40 to 125")]
Sensor = Literal["power", "battery", "temperature", "throttling", "load", "memory", "network"]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a profile."""


class System(Table, frozen=True):
    """An operating system that the board runs: `[[os]]`."""

    id: Id
    title: Text
    base: Base
    """The Debian or Ubuntu release it is made of."""
    python: Python
    """The Python that the agent runs on; that of the container where there is one."""
    wheel_tag: WheelTag
    """The newest kind of wheel to take for it; older ones of the same Python and machine will do."""
    first_boot: Literal["cloud-init", "firstrun", "push"] = "push"
    """How a card is prepared: by cloud-init, by Raspberry Pi OS's firstrun.sh, or not: installed over SSH."""
    container: Base | None = None
    """The release inside the container; None: the agent runs on the system itself."""


class Agent(Table, frozen=True):
    """What the agent is told where nobody says otherwise: `[agent]`."""

    pack: Text = DEFAULT_PACK
    local: Text = "resnet-base"
    """The device's own model."""
    threads: Annotated[int, Meta(ge=1, le=1024, description="a number of threads from 1")] = 1


class Service(Table, frozen=True):
    """Limits of the systemd unit: `[service]`."""

    memory_high_mib: Mebibytes = 160
    """From here on the kernel slows the agent down and takes memory back."""
    memory_max_mib: Mebibytes = 256
    """Beyond, the agent is ended and started again."""
    tasks_max: Annotated[int, Meta(ge=32, le=4096, description="a number of threads and processes from 32")] = 64


class Sound(Table, frozen=True):
    """Where the sound comes from where no microphone is named: `[sound]`."""

    source: Source = "mic"
    packages: tuple[Package, ...] = ("libportaudio2",)
    """Debian packages that the source needs."""


class Microphone(Table, frozen=True):
    """A microphone or HAT that is known to work in this way: `[[microphone]]`."""

    id: Id
    title: Text
    source: Source
    rate: Annotated[int, Meta(ge=4000, le=192_000, description="Hz from 4,000 to 192,000")] | None = None
    channels: Annotated[int, Meta(ge=1, le=32, description="a number of channels from 1 to 32")] | None = None
    channel: Annotated[int, Meta(ge=0, le=31, description="the number of a channel, from 0")] | None = None
    overlay: BootLine | None = None
    """Line of config.txt that makes the kernel find a HAT."""
    button: Line | None = None
    """Its button, low when pressed."""
    led: Line | None = None
    needs: Text | None = None
    """What has to be done before it works."""


class Sensors(Table, frozen=True):
    """What tells the gate whether to train: `[sensors]`."""

    zones: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    pattern=r"^[A-Za-z0-9_*?.-]{1,64}\Z",
                    description='the type of a thermal zone, such as "cpu-thermal"',
                ),
            ],
            ...,
        ],
        Meta(max_length=16),
    ] = ()
    """Types of the thermal zones that count; none: those of the processor."""
    hot: Celsius = 75.0
    too_hot: Celsius = 85.0
    throttling: Literal["firmware", "kernel", "none"] = "kernel"
    """Who says that the board is slowed down: a Raspberry Pi's firmware, or the kernel's cooling devices."""
    supply: Literal["power_supply", "none"] = "none"
    """Whether /sys/class/power_supply tells mains from battery."""
    required: Annotated[tuple[Sensor, ...], Meta(max_length=7)] = ()
    """Sensors without which the device does not train."""


class Gpio(Table, frozen=True):
    """The chip of the header, and where a button, a switch and a light go: `[gpio]`."""

    chip: Chip
    label: Text
    """What `gpiodetect` calls the chip; its number may change with the kernel, this does not."""
    lines: Annotated[int, Meta(ge=1, le=1000, description="a number of lines from 1")]
    group: Annotated[str, Meta(pattern=r"^[a-z_][a-z0-9_-]{0,30}\Z", description="the name of a group")] | None = None
    """Group that may use the chip; None: only root, or nobody made one."""
    confirm: Line | None = None
    deny: Line | None = None
    mute: Line | None = None
    """A switch to ground."""
    led: Line | None = None


class Boot(Table, frozen=True):
    """The boot partition of a Raspberry Pi: `[boot]`."""

    partition: Annotated[str, Meta(pattern=r"^/[a-z/]{1,60}\Z", description="an absolute path")]
    cmdline: tuple[BootLine, ...] = ()
    """Kernel parameters, added to the line of cmdline.txt."""
    config: tuple[BootLine, ...] = ()
    """Lines of config.txt."""


class Board(Table, frozen=True):
    """A board and all that an installation on it has to know."""

    name: Id
    title: Text
    soc: Text
    processor: Text
    cores: Annotated[int, Meta(ge=1, le=1024, description="a number of cores from 1")]
    architecture: Literal["aarch64", "x86_64"]
    memory_mib: Annotated[tuple[Mebibytes, ...], Meta(min_length=1, max_length=32)]
    """The sizes that it is sold with; limits have to fit the smallest."""
    os: Annotated[tuple[System, ...], Meta(min_length=1, max_length=32)]
    agent: Agent = Agent()
    service: Service = Service()
    sound: Sound = Sound()
    microphone: Annotated[tuple[Microphone, ...], Meta(max_length=64)] = ()
    sensors: Sensors = Sensors()
    gpio: Gpio | None = None
    boot: Boot | None = None
    notes: Annotated[tuple[Text, ...], Meta(max_length=32)] = ()
    """What somebody who installs it should know."""

    @property
    def container_only(self) -> bool:
        """Whether the agent runs on none of its systems but in a container."""
        return all(system.container is not None for system in self.os)

    def system(self, wanted: str | None = None) -> System:
        """One of its systems, by id; the first where none is named. SettingsError: none has that id."""
        known = {system.id: system for system in self.os}
        if wanted is None:
            return self.os[0]
        if wanted not in known:
            raise SettingsError(f'{self.title} has no system "{wanted}": {nearest(wanted, known)}')
        return known[wanted]

    def microphone_of(self, wanted: str) -> Microphone:
        """One of its microphones, by id. SettingsError: none has that id."""
        known = {microphone.id: microphone for microphone in self.microphone}
        if wanted not in known:
            hint = nearest(wanted, known) if known else "its profile names none."
            raise SettingsError(f'{self.title} has no microphone "{wanted}": {hint}')
        return known[wanted]
