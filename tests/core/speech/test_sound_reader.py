"""The reader of sound over formats, encodings, channels, rates and damages; and the listing of folders."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sounds import ENCODINGS, KINDS, Made, tone

from auricle.errors import DataError
from auricle.speech.audio import SAMPLE_RATE, read_recording
from auricle.speech.sound_faults import Finding, SoundError, SoundFault, count_findings, findings_table, nothing_usable
from auricle.speech.sound_files import sound_files


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_file_is_decoded_or_refused_for_the_right_reason(tmp_path: Path, kind: str) -> None:
    wrong = [(made.name, said) for made in KINDS[kind](tmp_path) if (said := _mistake(made))]
    assert wrong == []


def _mistake(made: Made) -> str:
    """What is wrong with the answer of the reader; empty where it is right."""
    try:
        recording = read_recording(made.path)
    except SoundError as error:
        named = str(error).startswith(f"{made.path} ") and str(error).endswith(".") and "\n" not in str(error)
        return "" if error.fault is made.fault and named else f"{error.fault}: {error}"
    if made.fault is not None and not made.fault.is_used:
        return f"decoded, not {made.fault}"
    found = [finding.reason for finding in recording.findings]
    if found != ([made.fault.value] if made.fault else []):
        return f"found {found}"
    expected = tone(seconds=made.seconds)
    wide = np.pad(recording.samples[: len(expected) + 2_000], 2_000)
    shift = int(np.argmax(np.correlate(wide, expected)))
    error = float(np.sqrt(np.mean(np.square(wide[shift : shift + len(expected)] - expected)[800:-800])))
    return "" if error <= made.within else f"differs by {error:.4f}"


@settings(max_examples=200, deadline=None)
@given(
    form=st.sampled_from(sorted(ENCODINGS)),
    changes=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=6),
    end=st.integers(0, 4_000),
)
def test_whatever_a_file_holds_it_is_sound_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, form: str, changes: list[tuple[int, int]], end: int
) -> None:
    suffix, encodings = ENCODINGS[form]
    path = tmp_path_factory.getbasetemp() / f"whatever-{form}{suffix}"
    soundfile.write(path, tone(seconds=0.1), SAMPLE_RATE, format=form, subtype=next(iter(encodings)))
    data = bytearray(path.read_bytes())
    for place, value in changes:
        data[place % len(data)] = value
    path.write_bytes(data[: len(data) - end % len(data)])
    try:
        assert np.isfinite(read_recording(path).samples).all()
    except SoundError as error:
        assert str(error).startswith(f"{path} ") and "\n" not in str(error)


def test_a_file_longer_than_the_limit_is_refused_whatever_its_header_claims(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    soundfile.write(path, tone(4_000, 12.0), 4_000)
    assert len(read_recording(path, most=12).samples) == 12 * SAMPLE_RATE
    with pytest.raises(SoundError, match="longer than the 11 seconds"):
        read_recording(path, most=11)


def test_a_closed_file_without_sound_is_empty_although_chunks_follow(tmp_path: Path) -> None:
    path = tmp_path / "empty.wav"
    soundfile.write(path, tone()[:0], SAMPLE_RATE, subtype="PCM_16")
    data = bytearray(path.read_bytes() + b"note\x04\0\0\0ab\0\0")
    data[4:8] = (len(data) - 8).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(SoundError) as caught:
        read_recording(path)
    assert caught.value.fault is SoundFault.EMPTY


def test_a_recorder_that_counts_its_header_as_sound_is_forgiven(tmp_path: Path) -> None:
    path = tmp_path / "whole.wav"
    soundfile.write(path, tone(), SAMPLE_RATE, subtype="PCM_16")
    data = bytearray(path.read_bytes())
    data[40:44] = len(data).to_bytes(4, "little")
    path.write_bytes(data)
    recording = read_recording(path)
    assert (len(recording.samples), recording.findings) == (11_200, ())


def test_of_opposite_channels_the_louder_one_is_taken_exactly(tmp_path: Path) -> None:
    quiet, loud = -0.5 * tone(), tone()
    soundfile.write(tmp_path / "a.wav", np.stack([quiet, loud], 1), SAMPLE_RATE, subtype="FLOAT")
    assert (read_recording(tmp_path / "a.wav").samples == loud).all()
    soundfile.write(tmp_path / "b.wav", np.stack([loud, 0 * loud], 1), SAMPLE_RATE, subtype="FLOAT")
    assert (read_recording(tmp_path / "b.wav").samples == loud / 2).all()


def test_a_folder_is_listed_without_hidden_files_and_ends_at_links_in_a_circle(tmp_path: Path) -> None:
    for name in ("b.wav", "a.FLAC", "c.m4a", "._b.wav", ".hidden/x.wav", "in/d.mp3", "in/deep/e.ogg", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "in" / "circle").symlink_to(tmp_path)
    (tmp_path / "out").symlink_to("/")
    (tmp_path / "linked.wav").symlink_to(tmp_path / "in" / "d.mp3")
    os.mkfifo(tmp_path / "fifo.wav")

    names = [str(path.relative_to(tmp_path)) for path in sound_files(tmp_path, deep=True)]

    assert names == ["a.FLAC", "b.wav", "c.m4a", "fifo.wav", "in/d.mp3", "in/deep/e.ogg", "linked.wav"]
    assert [path.name for path in sound_files(tmp_path)] == ["a.FLAC", "b.wav", "c.m4a", "fifo.wav", "linked.wav"]
    with pytest.raises(DataError, match="nowhere cannot be listed"):
        sound_files(tmp_path / "nowhere")


def test_findings_are_counted_by_reason_in_a_table_of_80_columns() -> None:
    silent, opposite = SoundFault.SILENT.value, SoundFault.OPPOSITE.value
    findings = [
        Finding(opposite, "a.wav has opposite channels.", is_used=True),
        Finding("no speaker", "Row 2 of list.csv: no speaker."),
        Finding(silent, f"{'long/' * 12}b.wav is silent: replace or remove it."),
        Finding(silent, "c.wav is silent."),
    ]
    counts = count_findings(findings)
    assert [(row.reason, row.files, row.is_used) for row in counts] == [
        (silent, 2, False),
        ("no speaker", 1, False),
        (opposite, 1, True),
    ]
    table = findings_table(counts)
    assert max(map(len, table.splitlines())) <= 80
    assert "      2  not used: silent" in table.splitlines()
    assert nothing_usable("x", findings).startswith(
        "No file of sound in x could be used; 2 of 3: silent. The first: long"
    )
    assert findings_table([]) == ""


def test_a_recording_of_five_gigabytes_that_was_never_closed_is_too_long_and_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "endless.wav"
    soundfile.write(path, np.ones(16_000, np.int16), 16_000)
    head = bytearray(path.read_bytes()[:44])
    head[4:8] = head[40:44] = bytes(4)
    path.write_bytes(head + b"\1\0" * 16_000)
    os.truncate(path, 5 << 30)
    with pytest.raises(SoundError, match="longer than"):
        read_recording(path, 2)
