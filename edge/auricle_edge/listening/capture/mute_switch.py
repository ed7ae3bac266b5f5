"""A switch that mutes: a file, or a line of a GPIO chip."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from auricle.errors import SettingsError, extra_command


class MuteSwitch(Protocol):
    """Something that says whether the microphone is to be closed."""

    def on(self) -> bool:
        """Whether it mutes now."""


def mute_switch(setting: str) -> MuteSwitch | None:
    """The switch of `CaptureSettings.mute_switch`; None for none.

    Raises
    ------
    SettingsError
        The GPIO line is not written as it should be or cannot be had, or the package `gpiod` is missing.
    """
    if not setting:
        return None
    if not setting.startswith("gpio:"):
        return FileSwitch(Path(setting))
    chip, _, rest = setting.removeprefix("gpio:").partition(":")
    line, _, low = rest.partition(":")
    if not chip or not line.isdecimal() or low not in ("", "low"):
        raise SettingsError(f'mute_switch = "{setting}": write gpio:gpiochip0:17, or gpio:gpiochip0:17:low.')
    return GpioSwitch(Path("/dev") / chip, int(line), bool(low))


class FileSwitch:
    """Mutes while the file exists, unless it says 0, as `/sys/class/gpio/gpio17/value` may."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def on(self) -> bool:
        """Whether it mutes now; a file that cannot be read mutes."""
        try:
            with self._path.open("rb") as file:
                return file.read(2).strip() != b"0"
        except FileNotFoundError:
            return False
        except OSError:
            return True


class GpioSwitch:
    """Mutes while a line of a GPIO chip is active; an active low one is pulled up."""

    def __init__(self, chip: Path, line: int, low: bool) -> None:
        try:
            import gpiod
            from gpiod.line import Bias, Direction, Value
        except ModuleNotFoundError as error:
            raise SettingsError(f"A mute switch on a GPIO line needs gpiod: {extra_command('gpio')}.") from error
        bias = Bias.PULL_UP if low else Bias.AS_IS
        wanted = gpiod.LineSettings(direction=Direction.INPUT, bias=bias, active_low=low)
        try:
            self._request = gpiod.request_lines(str(chip), consumer="auricle mute", config={line: wanted})
        except (OSError, ValueError) as error:
            raise SettingsError(f"GPIO line {line} of {chip} cannot be read: {error}.") from error
        self._line, self._active = line, Value.ACTIVE

    def on(self) -> bool:
        """Whether it mutes now; a line that cannot be read mutes."""
        try:
            return bool(self._request.get_value(self._line) == self._active)
        except OSError:
            return True
