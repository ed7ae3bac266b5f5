"""A device's settings: one table a part, and what cannot work is refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from auricle.errors import SettingsError
from auricle_edge.settings import TABLES, EdgeSettings, agent_settings, read_settings

KEY = "ab" * 32
WHOLE = """
device = "kitchen-1"
state = "/tmp/x"
[capture]
source = "mic:ReSpeaker"
[detect]
threshold = 0.7
[detect.thresholds]
yes = 0.9
[events]
hook = ["/bin/true"]
[gate]
hours = ["22:00-06:00"]
"""


def written(folder: Path, text: str) -> Path:
    """A settings file."""
    path = folder / "edge.toml"
    path.write_text(text)
    return path


def test_every_table_reaches_its_part_and_the_command_line_wins(tmp_path: Path) -> None:
    settings = read_settings(written(tmp_path, WHOLE), {"device": "cellar-2", "source": "fifo:/x"})
    assert settings.device == "cellar-2"
    assert settings.capture.source == "fifo:/x"
    assert settings.detect.thresholds == {"yes": 0.9}
    assert settings.events.hook == ("/bin/true",)
    assert settings.gate.hours == ("22:00-06:00",)
    assert agent_settings(settings) is None


def test_every_part_has_its_table() -> None:
    fields = EdgeSettings.__struct_fields__
    assert set(TABLES) <= set(fields)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (WHOLE + "[gaet]\n", 'no setting "gaet": did you mean "gate"?'),
        (WHOLE.replace("threshold =", "treshold ="), r'table \[detect\]: no setting "treshold": did you mean "thresh'),
        (WHOLE.replace("0.7", "7"), r"\[detect\]: Expected `float` <= 1.0"),
        (WHOLE.replace('"/tmp/x"', "1"), "Expected `str`, got `int` - at `\\$.state`"),
        (WHOLE.replace("[capture]", "[[capture]]"), "Expected `object`"),
        ('device = "kitchen-1"\nstate = "x"\nfleet = "home"\n', "say broker and coordinator too"),
        ('device = "kitchen-1"\nstate = "x"\nspeech = "clips"\n', "say fleet, broker and coordinator too"),
        ('device = "Kitchen 1"\nstate = "x"\n', "device"),
    ],
    ids=["table", "name", "value", "type", "array", "half-a-fleet", "speech-alone", "device"],
)
def test_what_cannot_work_is_refused_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        read_settings(written(tmp_path, text), {})


def test_a_key_that_is_none_is_refused() -> None:
    given = {"device": "kitchen-1", "state": "x", "fleet": "home", "broker": "mqtt://127.0.0.1", "coordinator": "xyz"}
    with pytest.raises(SettingsError, match="64 hexadecimal digits"):
        agent_settings(read_settings(None, given))
    settings = agent_settings(read_settings(None, {**given, "coordinator": KEY}))
    assert settings is not None
    assert settings.coordinator == bytes.fromhex(KEY)
