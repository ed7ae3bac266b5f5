"""What may be written as a source, and the sound cards it can mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from auricle.errors import AuricleError, DataError, SettingsError
from auricle.settings import from_mapping
from auricle_edge.listening.capture import child_parts
from auricle_edge.listening.capture.alsa import cards, find_card
from auricle_edge.listening.capture.capture import Capture
from auricle_edge.listening.capture.child_parts import counts, missing, rates
from auricle_edge.listening.capture.microphone import by_name, described, of_portaudio
from auricle_edge.listening.capture.settings import CaptureSettings, parse_source


@pytest.mark.parametrize(
    ("text", "kind", "target"),
    [
        ("mic", "mic", ""),
        ("mic:USB PnP*", "mic", "USB PnP*"),
        ("alsa:CARD=Device", "alsa", "CARD=Device"),
        ("alsa:usb=0d8c:0014,DEV=0", "alsa", "usb=0d8c:0014,DEV=0"),
        ("arecord:hw:CARD=Device,DEV=0", "arecord", "hw:CARD=Device,DEV=0"),
        ("fifo:/run/sound", "fifo", "/run/sound"),
        ("file:a.flac", "file", "a.flac"),
    ],
)
def test_a_source_is_its_kind_and_what_it_names(text: str, kind: str, target: str) -> None:
    source = parse_source(CaptureSettings(source=text))
    assert (source.kind, source.target, source.fast, source.loop) == (kind, target, False, False)


def test_a_recording_may_be_read_fast_and_over_again() -> None:
    source = parse_source(CaptureSettings(source="folder:clips?pace=fast&loop=1"))
    assert (source.target, source.fast, source.loop, source.recorded) == ("clips", True, True, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mike", 'did you mean "mic"?'),
        ("mic:1", "by its index"),
        ("arecord:hw:1,0", "by its index"),
        ("arecord:plughw:0", "by its index"),
        ("arecord:hw:CARD=1", "by its index"),
        ("alsa:Device", "alsa:CARD=ID"),
        ("file:", "needs the path"),
        ("file:a.wav?speed=fast", 'no setting "speed"'),
        ("file:a.wav?pace=quick", "pace"),
    ],
)
def test_what_is_no_source_is_refused_with_a_sentence(text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words.replace("?", "[?]")):
        parse_source(CaptureSettings(source=text))


def test_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SettingsError, match='did you mean "stall_after"'):
        from_mapping(CaptureSettings, {"stall_afer": 2}, "[capture]")


def test_what_no_restart_mends_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for source in (f"file:{tmp_path}/none.wav", f"folder:{tmp_path}/none", f"fifo:{tmp_path}/file"):
        with pytest.raises(AuricleError):
            Capture(CaptureSettings(source=source)).start()


def test_a_recording_that_is_none_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "bad.wav").write_bytes(b"RIFFnonsense")
    capture = Capture(CaptureSettings(source=f"folder:{tmp_path}"))
    capture.start()
    with pytest.raises(DataError, match=r"bad\.wav"):
        list(capture.blocks())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`/proc/asound` of a Raspberry Pi with a USB microphone, as the kernel writes it."""
    place = tmp_path / "proc/asound"
    (place / "card1").mkdir(parents=True)
    (place / "cards").write_text(
        " 0 [vc4hdmi        ]: vc4-hdmi - vc4-hdmi\n                      vc4-hdmi\n"
        " 1 [Device         ]: USB-Audio - USB PnP Sound Device\n"
        "                      C-Media Electronics Inc. USB PnP Sound Device at usb-3f980000.usb-1.3, full speed\n"
    )
    (place / "card1/usbid").write_text("0d8c:0014\n")
    (place / "pcm").write_text(
        "00-00: MAI PCM i2s-hifi-0 : MAI PCM i2s-hifi-0 : playback 1\n"
        "01-00: USB Audio : USB Audio : playback 1 : capture 1\n"
    )
    return tmp_path


def test_cards_are_found_by_id_and_by_usb_number(root: Path) -> None:
    found = cards(str(root))
    assert [(card.index, card.id, card.name, card.usb, card.inputs) for card in found] == [
        (0, "vc4hdmi", "vc4-hdmi", None, []),
        (1, "Device", "USB PnP Sound Device", "0d8c:0014", [0]),
    ]
    for target in ("CARD=Device", "hw:CARD=Device,DEV=0", "plughw:CARD=Device", "usb=0D8C:0014"):
        assert find_card(target, found) == (found[1], 0)
    assert find_card("CARD=Devic", found) is None
    assert cards(str(root / "nothing")) == []


def test_a_microphone_is_chosen_by_its_name_or_the_first_in_order_that_has_the_text_in_it() -> None:
    there = [{"name": name} for name in ("Webcam: USB (hw:2,0)", "USB PnP: Audio (hw:1,0)", "usb", "default")]
    assert by_name("USB", there) == {"name": "usb"}
    assert by_name("pnp", there) == {"name": "USB PnP: Audio (hw:1,0)"}
    assert by_name("*usb*(hw:*", there) == {"name": "USB PnP: Audio (hw:1,0)"}
    assert by_name("web?am*", there) == {"name": "Webcam: USB (hw:2,0)"}
    assert by_name("ReSpeaker", there) is None


def test_one_that_is_missing_is_refused_with_what_there_is() -> None:
    assert str(missing('microphone "desk"', ["USB", "HDMI"])) == 'No microphone "desk"; there is: USB, HDMI.'
    assert str(missing("sound card CARD=X", [])).startswith("No sound card CARD=X, nor any other: plug one in")


def test_a_device_is_tried_at_the_wanted_then_its_own_then_every_usual_rate() -> None:
    assert rates(16_000, 44_100) == [16_000, 44_100, 48_000, 32_000, 96_000, 22_050, 8_000]
    assert rates(None, 48_000)[:2] == [48_000, 44_100]
    assert (counts(None, 1), counts(None, 6), counts(6, 6), counts(None, None)) == (
        [1, 2],
        [2, 1, 6],
        [6, 2, 1],
        [2, 1],
    )


def test_nothing_in_the_room_looks_at_the_wall_clock() -> None:
    files = list(Path(child_parts.__file__).parent.glob("*.py"))
    assert len(files) > 10
    assert not [file.name for file in files if "time.time" in file.read_text() or "datetime" in file.read_text()]


def test_a_card_is_listed_with_what_to_write_into_the_settings(root: Path) -> None:
    plugged = cards(str(root))
    portaudio = {
        "index": 7,
        "name": "USB PnP Sound Device: Audio (hw:1,0)",
        "max_input_channels": 1,
        "default_samplerate": 44100.0,
    }
    assert of_portaudio(portaudio, True, plugged) == {
        "name": "USB PnP Sound Device: Audio (hw:1,0)",
        "source": "alsa:CARD=Device,DEV=0",
        "alsa": "hw:CARD=Device,DEV=0",
        "usb": "0d8c:0014",
        "channels": 1,
        "rate": 44100,
        "default": True,
    }
    assert described(plugged[1], 0)["source"] == "arecord:hw:CARD=Device,DEV=0"
    for source in (of_portaudio(portaudio, True, plugged), described(plugged[1], 0)):
        parse_source(CaptureSettings(source=source["source"]))
