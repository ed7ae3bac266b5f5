"""`auricle edge clips`: what a person at the device can see, hear, correct and destroy."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec
import numpy as np
import pytest
import typer
from tests.edge.clip_sounds import new, tone

from auricle.errors import AuricleError, DataError, SettingsError
from auricle.packs.pack import Task, load_pack
from auricle.speech.audio import read_audio
from auricle.speech.clip_folder import scan_folder
from auricle.speech.features import LogMel
from auricle_edge.clips import ClipSettings, ClipStore
from auricle_edge.clips.export import export, play
from auricle_edge.commands.clip_commands import _cell, app

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def kept(tmp_path: Path) -> ClipStore:
    """The store of an agent's state folder, with a few clips."""
    frontend = LogMel(load_pack("gsc12").manifest.task)
    store = ClipStore(tmp_path / "state" / "clips", ClipSettings(), frontend, draw=lambda: 0.0)
    for seed, word in enumerate(["yes", "yes", "no"]):
        store.add(new(seed, word))
    return store


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:

    def command(*arguments: str) -> tuple[int, str]:
        given = [*arguments, "--state", str(tmp_path / "state")]
        code = typer.main.get_command(app).main(given, prog_name="clips", standalone_mode=False)
        return code or 0, capsys.readouterr().out

    return command


def test_clips_are_listed_and_shown_for_people_and_programs(kept: ClipStore, run: Run) -> None:
    first = kept.list()[0].id
    listed = json.loads(run("list", "--json")[1])
    assert [clip["word"] for clip in listed["clips"]] == ["yes", "yes", "no"]
    assert (listed["labels"], listed["held_out"], listed["damaged"]) == ({"no": 1, "yes": 2}, 1, 0)
    assert "3 clips" in run("list")[1]
    assert len(json.loads(run("list", "--json", "--word", "no")[1])["clips"]) == 1
    assert json.loads(run("show", first[:8], "--json")[1])["id"] == first
    assert all(datetime.fromisoformat(clip["created"]).tzinfo is not None for clip in listed["clips"])
    with pytest.raises(DataError):
        kept.get("")
    code, text = run("show", first)
    assert (code, "source: enrolled" in text, "held out: no" in text) == (0, True, True)


def test_a_damaged_clip_is_shown_as_such_and_can_be_deleted(kept: ClipStore, run: Run) -> None:
    clip = kept.list()[1]
    (kept.folder / "files" / clip.file).write_bytes(b"x")
    assert run("show", clip.id)[0] == 1
    assert "1 damaged" in run("list")[1]
    assert json.loads(run("delete", "--damaged", "--yes", "--json")[1])["count"] == 1
    assert clip.id not in {each.id for each in kept.list()}


def test_a_clip_is_relabelled(kept: ClipStore, run: Run) -> None:
    clip = kept.list()[0].id
    assert json.loads(run("relabel", clip, "stop", "--json")[1])["word"] == "stop"
    assert kept.get(clip).record.source == "confirmed"


def test_nothing_is_destroyed_unasked(kept: ClipStore, run: Run) -> None:
    clip = kept.list()[0].id
    for arguments in (("delete", clip), ("wipe",), ("delete", "--word", "yes", "--json")):
        with pytest.raises(SettingsError, match="--yes"):
            run(*arguments)
    for wrong in ("delete", "--yes"), ("delete", "000000000000x", "--yes"):
        with pytest.raises(AuricleError):
            run(*wrong)
    assert len(kept.list()) == 3
    assert "2 clips" in run("delete", "--word", "yes", "--yes")[1]
    wiped = json.loads(run("wipe", "--yes", "--json")[1])
    assert (wiped["clips"], kept.list()) == (1, ())


def test_exported_clips_are_a_speech_folder(kept: ClipStore, run: Run, tmp_path: Path) -> None:
    done = json.loads(run("export", str(tmp_path / "out"), "--json")[1])
    assert (done["clips"], done["damaged"]) == (3, 0)
    folder = scan_folder(tmp_path / "out")
    assert folder.counts() == {"no": 1, "yes": 2}
    sounds = [read_audio(clip.path) for clip in folder.clips]
    assert any(np.array_equal(sound, tone(2) / np.float32(32768)) for sound in sounds)
    rows = [json.loads(line) for line in (tmp_path / "out" / "clips.jsonl").read_text().splitlines()]
    assert {row["id"] for row in rows} == {clip.id for clip in kept.list()}
    with pytest.raises(DataError, match="not empty"):
        run("export", str(tmp_path / "out"))


def test_what_is_exported_stays_in_its_folder(tmp_path: Path) -> None:
    """Clips of a pack that was read before labels had one form."""
    words = ("../../pwn", "/pwn", "a\x1bb")
    frontend = LogMel(Task(labels=words))
    store = ClipStore(tmp_path / "state" / "clips", ClipSettings(), frontend, draw=lambda: 0.0)
    for seed, word in enumerate(words):
        store.add(new(seed, word))
    out = tmp_path / "some" / "out"
    assert export(store, store.list(), out).clips == 3
    assert {path.name for path in out.iterdir()} == {"_unlabelled_", "clips.jsonl"}
    assert len(list((out / "_unlabelled_").iterdir())) == 3
    assert {path.name for path in tmp_path.iterdir()} == {"some", "state"}
    assert _cell("word", words[2]) == "a?b"


def test_settings_and_their_mistakes_come_from_the_agents_file(
    kept: ClipStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "edge.toml"
    config.write_text(f'device = "kitchen"\nstate = "{tmp_path}/state"\npack = "gsc12"\n[clips]\nmegabytes = 1.0\n')
    command = typer.main.get_command(app)
    command.main(["list", "--config", str(config), "--json"], standalone_mode=False)
    assert len(json.loads(capsys.readouterr().out)["clips"]) == len(kept.list())
    config.write_text('device = "kitchen"\n[clips]\nmegabyte = 1.0\n')
    for wrong, said in (
        (["--config", str(config), "--state", str(tmp_path / "state")], "megabytes"),
        ([], "--config"),
        (["--state", str(tmp_path / "nowhere")], "no clips"),
    ):
        with pytest.raises(AuricleError, match=said):
            command.main(["list", *wrong], standalone_mode=False)


def test_a_clip_is_played_through_a_pipe_and_a_missing_player_is_a_sentence(
    kept: ClipStore, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    player = programs / "aplay"
    player.write_text(f"#!/bin/sh\nexec /bin/cat > {tmp_path}/heard\n")
    player.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))

    clip = kept.list()[0].id
    assert "was played with aplay" in run("play", clip)[1]
    assert (tmp_path / "heard").read_bytes() == kept.read(clip).tobytes()
    player.write_text("#!/bin/sh\necho 'cannot find card' >&2\nexit 1\n")
    with pytest.raises(DataError, match="cannot find card"):
        run("play", clip)
    with pytest.raises(DataError, match=r"aplay|sounddevice"):
        play(tone(0), path=str(tmp_path))


def test_settings_have_sound_defaults_and_bounds() -> None:
    assert msgspec.convert({}, ClipSettings) == ClipSettings()
    for wrong in ({"held_out": 0.6}, {"megabytes": 0}, {"keep": "mp3"}, {"days": -1}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, ClipSettings)
