"""openWakeWord's recipe beside ours: how clips are laid out, what is refused, and the whole of it in small."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
from bench import wake_recipe
from bench.step_environments import NoEnvironment, environment
from bench.wake_listeners import head_listeners
from bench.wake_peers import arguments as peer_arguments
from bench.wake_peers import run as hear
from bench.wake_recipe import ClipCount, _without_silence, _write_clips, arguments, run, text_of

from auricle.errors import DataError
from auricle.hearing.sounds import Take


def _sounds(count: int) -> list[np.ndarray[tuple[int], np.dtype[np.float32]]]:
    """So many sounds, the nth of n + 1 samples."""
    return [np.full(number + 1, 0.5, np.float32) for number in range(count)]


def _lengths(folder: Path) -> list[int]:
    lengths = []
    for path in sorted(folder.iterdir()):
        with wave.open(str(path)) as file:
            assert (file.getframerate(), file.getsampwidth(), file.getnchannels()) == (16_000, 2, 1)
            lengths.append(file.getnframes())
    return lengths


def test_each_take_is_written_once_before_any_is_written_again(tmp_path: Path) -> None:
    assert _write_clips(tmp_path / "many", _sounds(4), 10, np.random.default_rng(0)) == ClipCount(4, 10)
    lengths = _lengths(tmp_path / "many")
    assert sorted(lengths[:4]) == sorted(lengths[4:8]) == [1, 2, 3, 4] and len(set(lengths[8:])) == 2

    assert _write_clips(tmp_path / "few", _sounds(4), 3, np.random.default_rng(0), end="_r0") == ClipCount(3, 3)
    assert len(set(_lengths(tmp_path / "few"))) == 3
    assert min(path.name for path in (tmp_path / "few").iterdir()) == "clip_000000_r0.wav"

    assert _write_clips(tmp_path / "none", [], 0, np.random.default_rng(0)) == ClipCount(0, 0)


def test_a_take_ends_where_its_word_ends() -> None:
    sound = np.zeros(16_000, np.float32)
    sound[4_000:9_000] = 0.2 * np.sin(np.arange(5_000, dtype=np.float32))
    cut = _without_silence(Take("jarvis", "one", sound))
    assert 4_500 < len(cut) < 6_500


def test_a_folder_that_is_missing_and_a_name_of_no_head_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["jarvis", "--data", str(tmp_path), "--out", str(tmp_path / "jarvis.onnx")]
    with pytest.raises(DataError, match="gsc-more is not a folder: name with --data"):
        wake_recipe.wake_task(arguments(given), tmp_path)
    with pytest.raises(SystemExit):
        arguments([*given, "--clips", "0"])
    assert "have to be at least 20" in capsys.readouterr().err

    monkeypatch.setattr("sys.argv", ["wake_recipe.py", *given[:-1], str(tmp_path / "jarvis.tflite")])
    assert wake_recipe.main() == 1
    assert "is not a valid head" in capsys.readouterr().err


def test_what_is_no_head_is_no_listener(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "one" / "jarvis.txt").write_text("")
    with pytest.raises(DataError, match="is not a valid head"):
        next(head_listeners([tmp_path / "one" / "jarvis.txt"], tmp_path))
    with pytest.raises(DataError, match="is not a valid head"):
        next(head_listeners([tmp_path / "jarvis.onnx"], tmp_path))


@pytest.mark.nightly
@pytest.mark.slow
def test_the_recipe_trains_a_head_that_is_heard_beside_a_pack(data: Path, tmp_path: Path) -> None:
    """The package's own trainer on 20 clips, then its own inference on the bench's sound."""
    try:
        environment("livekit-training")
        environment("livekit")
    except NoEnvironment as reason:
        pytest.skip(str(reason))
    small = ["--clips", "20", "--steps", "20", "--speakers", "30", "--voice", "espeak-ng"]
    head = tmp_path / "jarvis-recipe.onnx"

    report = run(arguments(["jarvis", "--data", str(data), "--out", str(head), *small]))

    assert report.clips["positive_train"].clips == report.clips["negative_train"].clips == 20
    assert report.windows["train"] > 0 and report.bytes == head.stat().st_size > 10_000
    assert "in place of MUSAN" in text_of(report)

    bench = ["--data", str(data), "--minutes", "0.2", "--voices", "0", "--rounds", "1", "--passes", "1"]
    result = hear(peer_arguments([*bench, "--peer", "none", "--phrase", "jarvis", "--head", str(head)]))

    assert [heard.name for heard in result.heard] == ["auricle home", "head jarvis-recipe"]
    assert result.heard[1].default.threshold == 0.5 and result.costs["head jarvis-recipe"].cpu_seconds > 0
    assert "livekit-wakeword==0.3.0" in result.packages
