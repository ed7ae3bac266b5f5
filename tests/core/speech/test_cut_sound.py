"""Files of which a part is missing or not announced: all of the sound is decoded, or the sentence says what is not."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from auricle.speech.audio import open_stream, read_recording
from auricle.speech.mp3_header import find_mp3
from auricle.speech.sound_faults import SoundError, SoundFault

RATE = 16_000


def _sound(seconds: float = 1.0) -> np.ndarray:
    """Loud, then silent, then loud: a rate that varies has short frames and long ones."""
    rng = np.random.default_rng(3)
    part = int(RATE * seconds / 3)
    return np.concatenate([rng.normal(0, 0.1, part), np.zeros(part), rng.normal(0, 0.3, part)]).astype(np.float32)


def _encoded(form: str, codec: str | None = None, **options: object) -> bytes:
    content = io.BytesIO()
    soundfile.write(content, _sound(), RATE, format=form, subtype=codec, **options)
    return content.getvalue()


def _read(path: Path, content: bytes) -> tuple[int, tuple[str, ...]]:
    path.write_bytes(content)
    recording = read_recording(path)
    return len(recording.samples), tuple(finding.reason for finding in recording.findings)


def _frames(content: bytes, path: Path) -> tuple[int, int, int]:
    """First byte and end of the frames of an MP3, and how many sound has."""
    path.write_bytes(content)
    with path.open("rb") as file:
        found = find_mp3(file.fileno(), len(content))
    assert found is not None
    return found.pieces[0][0], found.pieces[-1][1], found.frames


APE = b"APETAGEX" + struct.pack("<IIII", 2000, 32, 0, 0) + bytes(8)
ID3 = b"ID3\x04\0\0\0\0\0\x0a" + bytes(10)


@pytest.mark.parametrize("mode", ["VARIABLE", "AVERAGE", "CONSTANT"])
@pytest.mark.parametrize(("before", "behind"), [(b"", b""), (ID3, b""), (b"", b"TAG" + bytes(125)), (ID3, APE)])
def test_an_mp3_without_its_first_frame_is_decoded_to_its_end(
    tmp_path: Path, mode: str, before: bytes, behind: bytes
) -> None:
    whole = _encoded("MP3", bitrate_mode=mode, compression_level=0.6)
    path = tmp_path / "stream.mp3"
    start, end, frames = _frames(whole, path)
    first = whole.index(whole[start : start + 2], start + 4)
    samples, findings = _read(path, before + whole[first:end] + behind)
    assert samples == 576 * frames - 529, "a frame of 16 kHz has 576 samples, a decoder's delay is 529"
    assert findings == ()


def test_two_mp3_behind_one_another_are_heard_as_both(tmp_path: Path) -> None:
    whole = _encoded("MP3", bitrate_mode="VARIABLE")
    _, _, frames = _frames(whole, tmp_path / "one.mp3")
    samples, _ = _read(tmp_path / "both.mp3", whole + b"TAG" + bytes(125) + whole)
    assert samples == 576 * (2 * frames + 1) - 529, "the second one's tag is a frame without sound"


def test_a_decoder_says_nothing_on_the_terminal_and_others_are_heard(tmp_path: Path) -> None:
    whole = _encoded("MP3", bitrate_mode="VARIABLE", compression_level=0.2)
    start, end, _ = _frames(whole, tmp_path / "a.mp3")
    cut = bytearray(whole[start + (end - start) // 2 : end])
    for place in range(200, len(cut), 97):
        cut[place] ^= 0x55
    (tmp_path / "a.mp3").write_bytes(cut)
    program = (
        "import os, sys; from pathlib import Path; from auricle.errors import DataError\n"
        "from auricle.speech.audio import read_recording; from auricle.speech.quiet_decoder import quiet_decoder\n"
        "with quiet_decoder(): os.write(2, b'[src/libmpg123/x.c] error: bits\\nheard\\n')\n"
        "try: read_recording(Path(sys.argv[1]))\n"
        "except DataError: pass\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.mp3")], capture_output=True, text=True, check=True
    )
    assert ran.stderr == "heard\n"


@pytest.mark.parametrize(
    ("form", "mark", "claimed", "order"),
    [
        ("WAV", b"data", 9_600, "<I"),
        ("AIFF", b"SSND", 9_608, ">I"),
        ("CAF", b"data", 9_604, ">q"),
        ("AU", b".snd\0\0\0", 9_600, ">I"),
    ],
)
def test_sound_that_a_header_does_not_claim_is_read_and_said(
    tmp_path: Path, form: str, mark: bytes, claimed: int, order: str
) -> None:
    content = _encoded(form, "PCM_16")
    place = 8 if form == "AU" else content.index(mark) + len(mark)
    wrong = content[:place] + struct.pack(order, claimed) + content[place + struct.calcsize(order) :]
    samples, findings = _read(tmp_path / "sound", wrong)
    assert (samples, findings) == (len(_sound()), (SoundFault.LESS.value,))
    assert _read(tmp_path / "sound", content) == (len(_sound()), ())


@pytest.mark.parametrize("behind", [b"LIST\x04\0\0\0abcd" + bytes(200), b"TAG" + bytes(200), bytes(400)])
def test_what_is_no_sound_behind_it_is_not_read(tmp_path: Path, behind: bytes) -> None:
    assert _read(tmp_path / "sound.wav", _encoded("WAV", "PCM_16") + behind) == (len(_sound()), ())


def _pages(content: bytes) -> list[int]:
    return [place for place in range(len(content)) if content.startswith(b"OggS", place)]


@pytest.mark.parametrize("codec", ["VORBIS", "OPUS"])
def test_an_ogg_that_lacks_a_page_is_refused_and_one_that_lacks_its_end_says_so(tmp_path: Path, codec: str) -> None:
    content = io.BytesIO()
    soundfile.write(content, _sound(6), RATE, format="OGG", subtype=codec)
    whole = content.getvalue()
    pages = _pages(whole)
    with pytest.raises(SoundError, match="1 page is missing between others"):
        _read(tmp_path / "a.ogg", whole[: pages[2]] + whole[pages[3] :])
    _, findings = _read(tmp_path / "a.ogg", whole[: pages[-1]])
    assert findings == (SoundFault.NO_END.value,)
    assert _read(tmp_path / "a.ogg", whole)[1] == ()


@pytest.mark.parametrize(("form", "codec"), [("OGG", "VORBIS"), ("OGG", "OPUS"), ("FLAC", None)])
def test_several_recordings_in_one_file_are_not_taken_for_the_first(
    tmp_path: Path, form: str, codec: str | None
) -> None:
    with pytest.raises(SoundError, match="holds 2 recordings") as refused:
        _read(tmp_path / "a.flac", 2 * _encoded(form, codec))
    assert refused.value.fault is SoundFault.SEVERAL


def test_a_flac_behind_a_tag_is_read(tmp_path: Path) -> None:
    assert _read(tmp_path / "a.flac", ID3 + _encoded("FLAC")) == (len(_sound()), ())


def _claiming(flac: bytes, samples: int) -> bytes:
    """The last 36 of the 64 bits at byte 18 are what the first block claims."""
    start = flac.index(b"fLaC") + 18
    field = int.from_bytes(flac[start : start + 8], "big")
    return flac[:start] + (field >> 36 << 36 | samples).to_bytes(8, "big") + flac[start + 8 :]


@pytest.mark.parametrize("seconds", [0.05, 1.0, 3.0])
@pytest.mark.parametrize(("rate", "channels", "subtype"), [(16_000, 1, "PCM_16"), (44_100, 2, "PCM_24")])
@pytest.mark.parametrize(("before", "behind"), [(b"", b""), (ID3, b"TAG" + bytes(125))])
def test_a_flac_that_claims_less_than_it_holds_is_read_to_its_end(
    tmp_path: Path, seconds: float, rate: int, channels: int, subtype: str, before: bytes, behind: bytes
) -> None:
    samples = int(seconds * rate)
    sound = np.random.default_rng(5).normal(0, 0.1, (samples, channels))
    content, path = io.BytesIO(), tmp_path / "a.flac"
    soundfile.write(content, sound, rate, format="FLAC", subtype=subtype)
    whole = before + content.getvalue() + behind
    read = len(read_recording(_written(path, whole)).samples)
    for claimed in (1, samples // 3, samples - 1):
        recording = read_recording(_written(path, _claiming(whole, claimed)))
        said = f"{path} holds {samples:,} samples of sound, and its header claims {claimed:,}: read to the end."
        assert len(recording.samples) == read
        assert [finding.sentence for finding in recording.findings] == [said]
    assert _read(path, _claiming(whole, 0)) == (read, ())
    with pytest.raises(SoundError, match=f"holds less than the {samples + 1:,} samples"):
        _read(path, _claiming(whole, samples + 1))


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_flac_of_unknown_length_says_when_its_last_frame_is_cut(tmp_path: Path) -> None:
    whole = _claiming(_encoded("FLAC"), 0)
    samples, findings = _read(tmp_path / "a.flac", whole[:-100])
    assert (samples, findings) == (3 * 4_096, (SoundFault.NO_END.value,)), "its frames have 4,096 samples"


def test_an_mp3_without_a_count_says_when_its_last_frame_is_cut(tmp_path: Path) -> None:
    whole = _encoded("MP3", bitrate_mode="CONSTANT")
    start, end, frames = _frames(whole, tmp_path / "a.mp3")
    first = whole.index(whole[start : start + 2], start + 4)
    samples, findings = _read(tmp_path / "a.mp3", whole[first : end - 50])
    assert (samples, findings) == (576 * (frames - 1) - 529, (SoundFault.NO_END.value,))


@pytest.mark.parametrize("frames", [3, 0])
def test_an_mp3_whose_tag_counts_fewer_frames_is_decoded_to_its_end(
    tmp_path: Path, frames: int, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = _encoded("MP3", bitrate_mode="VARIABLE")
    _, _, there = _frames(whole, tmp_path / "a.mp3")
    tag = whole.index(b"Xing") + 8
    assert _read(tmp_path / "a.mp3", whole[:tag] + struct.pack(">II", frames, 1_000) + whole[tag + 8 :])[1] == ()
    samples, _ = _read(tmp_path / "a.mp3", whole[:tag] + struct.pack(">II", frames, 1_000) + whole[tag + 8 :])
    assert samples == 576 * there - 529
    assert _read(tmp_path / "a.mp3", whole[: tag + 4] + struct.pack(">I", 1_000) + whole[tag + 8 :])[0] == len(_sound())
    assert capfd.readouterr().err == ""


def test_an_rf64_that_claims_another_size_is_read_to_its_end_or_refused(tmp_path: Path) -> None:
    whole, path = _encoded("RF64", "PCM_16"), tmp_path / "a.wav"
    size = len(_sound()) * 2
    assert whole[28:36] == struct.pack("<Q", size), "bytes of sound, in the chunk ds64"
    for claimed, reason in [(size // 3, SoundFault.LESS), (0, SoundFault.NO_SIZE)]:
        assert _read(path, whole[:28] + struct.pack("<Q", claimed) + whole[36:]) == (len(_sound()), (reason.value,))
    with pytest.raises(SoundError, match=f"holds {size:,} of the {2 * size:,} bytes"):
        _read(path, whole[:28] + struct.pack("<Q", 2 * size) + whole[36:])


def test_a_sphere_that_claims_another_length_says_so(tmp_path: Path) -> None:
    whole, path = _encoded("NIST", "PCM_16"), tmp_path / "a.sph"
    samples = len(_sound())
    assert _read(path, whole) == (samples, ())
    fewer = whole.replace(b"sample_count -i %d" % samples, b"sample_count -i 10000", 1)
    assert _read(path, fewer) == (samples, (SoundFault.LESS.value,))
    with pytest.raises(SoundError, match=f"holds 8,976 of the {2 * samples:,} bytes"):
        _read(path, whole[:10_000])


def test_an_ogg_whose_last_page_claims_less_than_one_before_is_damaged(tmp_path: Path) -> None:
    content = io.BytesIO()
    soundfile.write(content, _sound(6), RATE, format="OGG", subtype="VORBIS")
    whole = content.getvalue()
    last = _pages(whole)[-1] + 6
    with pytest.raises(SoundError, match="is damaged"):
        _read(tmp_path / "a.ogg", whole[:last] + struct.pack("<q", 16_000) + whole[last + 8 :])


def test_a_stream_of_pieces_is_the_recording(tmp_path: Path) -> None:
    whole = _encoded("MP3", bitrate_mode="VARIABLE")
    path = tmp_path / "a.mp3"
    start, end, _ = _frames(whole, path)
    path.write_bytes(whole[start + 288 : end])
    opened, _, _ = open_stream(path)
    with opened:
        pieces = []
        while len(piece := opened.read(1_000)):
            pieces.append(piece[:, 0])
    np.testing.assert_array_equal(np.concatenate(pieces), read_recording(path).samples)
