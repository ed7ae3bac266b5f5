"""A device's settings: one table a part, and what cannot work is refused in one sentence."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

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
    assert set(TABLES) <= set(EdgeSettings.__struct_fields__)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (WHOLE + "[gaet]\n", "gate"),
        (WHOLE.replace("threshold =", "treshold ="), r"\[detect\]"),
        (WHOLE.replace("0.7", "7"), r"\[detect\]: threshold"),
        (WHOLE.replace('"/tmp/x"', "1"), "state"),
        (WHOLE.replace("[capture]", "[[capture]]"), "table"),
        ('device = "kitchen-1"\nstate = "x"\nfleet = "home"\n', "broker and coordinator"),
        ('device = "kitchen-1"\nstate = "x"\ndata = "clips"\n', "fleet, broker"),
        ('device = "Kitchen 1"\nstate = "x"\n', "device"),
    ],
    ids=["table", "name", "value", "type", "array", "half-a-fleet", "data-alone", "device"],
)
def test_what_cannot_work_is_refused_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        read_settings(written(tmp_path, text), {})


def test_a_setting_has_its_old_name_for_one_version(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = {"fleet": "home", "broker": "mqtt://127.0.0.1", "coordinator": KEY}
    assert (
        read_settings(written(tmp_path, 'state = "x"\ndevice = "kitchen-1"\nspeech = "clips"\n'), given).data == "clips"
    )
    assert "speech is now data" in caplog.text
    with pytest.raises(SettingsError, match="speech"):
        read_settings(written(tmp_path, 'state = "x"\nspeech = "clips"\ndata = "more"\n'), given)


def test_a_key_that_is_none_is_refused() -> None:
    given = {"device": "kitchen-1", "state": "x", "fleet": "home", "broker": "mqtt://127.0.0.1", "coordinator": "xyz"}
    with pytest.raises(SettingsError, match="64"):
        agent_settings(read_settings(None, given))
    settings = agent_settings(read_settings(None, {**given, "coordinator": KEY}))
    assert settings is not None
    assert settings.coordinator == bytes.fromhex(KEY)


def certified(state: Path, name: str) -> None:
    """Put a certificate with this name where the device keeps its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder(subject, subject, key.public_key(), 1)
    made = made.not_valid_before(datetime(2020, 1, 1)).not_valid_after(datetime(2100, 1, 1))
    (state / "identity").mkdir(parents=True)
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (state / "identity/certificate.pem").write_bytes(pem)


def test_a_device_without_a_name_has_that_of_its_certificate(tmp_path: Path) -> None:
    fleet = {"fleet": "home", "broker": "mqtt://127.0.0.1", "coordinator": KEY, "state": str(tmp_path)}
    unnamed = read_settings(None, fleet)
    assert unnamed.device is None
    with pytest.raises(SettingsError, match="name"):
        agent_settings(unnamed)
    certified(tmp_path, "kitchen-1")
    assert read_settings(None, fleet).name == "kitchen-1"
    assert read_settings(None, {**fleet, "device": "kitchen-1"}).name == "kitchen-1"
    with pytest.raises(SettingsError, match="kitchen-1"):
        read_settings(None, {**fleet, "device": "cellar-2"})


def test_a_certificate_that_is_no_devices_is_refused(tmp_path: Path) -> None:
    certified(tmp_path, "Nobody in particular")
    with pytest.raises(SettingsError, match="certificate"):
        read_settings(None, {"state": str(tmp_path)})


def test_a_device_in_a_home_gives_negatives_a_quarter_of_a_round_unless_its_file_says_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "edge.toml"
    file.write_text(f'device = "kitchen-1"\nstate = "{tmp_path}"\n[learn]\nclips = 7\n', encoding="utf-8")
    home = read_settings(file, {"home": True}).learn
    assert (home.carried, home.clips) == (0.25, 7)
    assert read_settings(file, {}).learn.carried == 0.5
    file.write_text(f'state = "{tmp_path}"\n[learn]\ncarried = 0.1\n', encoding="utf-8")
    assert read_settings(file, {"home": True, "device": "kitchen-1"}).learn.carried == 0.1
    assert read_settings(None, {"home": True, "device": "kitchen-1", "state": str(tmp_path)}).learn.carried == 0.25
