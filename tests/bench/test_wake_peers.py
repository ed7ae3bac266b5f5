"""The bench of wake words beside peers: figures by hand, which sound is heard, and the whole bench in small."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from bench import step_environments, wake_listeners, wake_peers
from bench.hearing_peer import Porcupine
from bench.hearing_sound import ALONE, Heard, recordings_of, takes_of, target_of, wake_scenes, write_scenes
from bench.step_environments import NoEnvironment, Recipe, environment
from bench.step_process import workers
from bench.wake_listeners import PEERS, Listener
from bench.wake_peers import arguments, run
from bench.wake_table import EVERYWHERE, RATES, Result, heard_of, hours_of, text_of

from auricle.errors import DataError
from auricle.hearing.scenes import Scene, Spoken, Stretch
from auricle.packs.manifest import Listening
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.speech.audio import SAMPLE_RATE

HOPS = 36_000
"""An hour of hops of 0.1 s."""
FACTS = {
    "labels": ["alexa", "hey_jarvis"],
    "thresholds": {"alexa": 0.5, "hey_jarvis": 0.5},
    "hop": 0.1,
    "smoothing": 1,
    "patience": 1,
    "files": {},
    "bytes": 7,
}


def _scores(*heard: tuple[int, float]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    rows = np.zeros((HOPS, 2), np.float32)
    rows[:, 0] = 0.99
    for hop, score in heard:
        rows[hop, 1] = score
    return rows


def test_hits_are_read_off_at_the_false_accepts_that_are_allowed() -> None:
    """Two hours with false accepts of 0.95 and 0.6; words in noise with 0.97 and 0.7, and one after words with 0.3.

    At 0.5 an hour one false accept is allowed, so two of the three are heard (above 0.6); from 1 an hour on, all.
    """
    empty = np.zeros(0, np.int16)
    kinds = ("jarvis: noise", "jarvis: noise", "jarvis: after words")
    places = [(second * SAMPLE_RATE, (second + 1) * SAMPLE_RATE) for second in (10, 20, 30)]
    words = tuple(Spoken("jarvis", *at, "x", kind, 10.0) for at, kind in zip(places, kinds, strict=True))
    hour = Scene(empty, (), (Stretch("speech", 0, 3600 * SAMPLE_RATE),))
    scenes = [Scene(empty, words), hour, hour]
    scores = [_scores((105, 0.97), (205, 0.7), (305, 0.3)), _scores((1000, 0.95)), _scores((2000, 0.6))]

    heard = heard_of("peer", "hey_jarvis", "", FACTS, scores, scenes)

    shares = {kind: [point.share for point in points] for kind, points in heard.hits["jarvis"].items()}
    assert shares[EVERYWHERE] == pytest.approx([2 / 3, 1, 1, 1])
    assert shares["noise"] == pytest.approx([1, 1, 1, 1])
    assert shares["after words"] == pytest.approx([0, 1, 1, 1])
    assert [point.rate for point in heard.hits["jarvis"]["noise"]] == list(RATES)
    assert heard.default.false_accepts["all"].events == 2
    assert heard.default.hits["jarvis: noise"].hits == 2
    assert hours_of(scenes) == {"speech": 2.0}


def test_the_phrase_comes_before_the_word_that_ends_it() -> None:
    assert target_of(["computer", "jarvis", "hey jarvis"], "hey jarvis") == "hey jarvis"
    assert target_of(["computer", "hey_jarvis"], "hey jarvis") == "hey_jarvis"
    assert target_of(["computer", "jarvis"], "hey jarvis") == "jarvis"
    assert target_of(["computer"], "hey jarvis") is None


def test_a_pack_without_the_phrase_is_refused(data: Path) -> None:
    with pytest.raises(DataError, match='gsc12 waits neither for "hey jarvis" nor for a phrase'):
        run(arguments(["--data", str(data), "--pack", "gsc12", "--peer", "none"]))


def _copy_of_home(path: Path, wake: tuple[str, ...]) -> str:
    """The pack home as another one of its name, which waits for these words."""
    pack = load_pack("home")
    listening = msgspec.structs.replace(pack.listening or Listening(), wake=wake)
    path.write_bytes(pack_bytes(Pack(msgspec.structs.replace(pack.manifest, listening=listening), pack.files)))
    return str(path)


def test_packs_of_one_name_are_told_apart_and_a_pack_is_heard_once(tmp_path: Path) -> None:
    other = _copy_of_home(tmp_path / "home.tar.zst", ("jarvis",))
    listeners = list(wake_listeners.pack_listeners(["home", other, "home"], "hey jarvis"))
    assert [listener.name for listener in listeners] == ["auricle home", f"auricle home ({other})"]


def test_a_word_that_a_pack_has_but_does_not_wait_for_is_not_its_phrase(tmp_path: Path) -> None:
    other = _copy_of_home(tmp_path / "home.tar.zst", ("computer",))
    with pytest.raises(DataError, match="waits neither"):
        list(wake_listeners.pack_listeners([other], "jarvis"))


def test_a_phrase_that_nobody_says_in_the_recordings_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["--data", ".", "--phrase", "stop"])
    assert 'has to end in "jarvis"' in capsys.readouterr().err


def test_a_listener_that_does_not_start_again_has_no_costs_and_the_others_have(tmp_path: Path) -> None:
    """One does not start, one ends in the second round; the third takes 0.1 s a second, so 360 s an hour."""
    answer = json.dumps({"cpu": [0.1] * wake_peers.BLOCK, "memory": {"peak": 7}})
    script = f"import sys\nprint({{}}, flush=True)\nfor _ in sys.stdin: print('{answer}', flush=True)"
    (tmp_path / "steady.py").write_text(script)
    (tmp_path / "short.py").write_text(f"print({{}}, flush=True)\ninput()\nprint('{answer}', flush=True)")
    active = [
        Listener(name, "jarvis", "", Path(sys.executable), name, {"pack": name}, (tmp_path,))
        for name in ("absent", "short", "steady")
    ]
    sound = Heard(Scene(np.zeros(0, np.int16)), tmp_path / "none", 0.0)
    with workers() as running:
        costs = wake_peers._costs(active, [sound], tmp_path, arguments(["--data", ".", "--rounds", "3"]), running)
    assert list(costs) == ["steady"]
    cost = costs["steady"]
    assert (cost.cpu_seconds, cost.low, cost.high) == pytest.approx((360, 360, 360)) and cost.peak_bytes == 7


def test_a_word_heard_at_a_lower_sensitivity_scores_higher() -> None:
    """From 1 at sensitivity 0 down to 0.1 at sensitivity 1: every step is a threshold of its own."""
    scores = [Porcupine.score(step) for step in range(Porcupine.STEPS + 1)]
    assert scores == sorted(scores, reverse=True) and (scores[0], scores[-1]) == (1, pytest.approx(0.1))
    assert len(set(scores)) == 21


def test_people_of_the_test_part_say_it_and_nobody_who_trained_a_pack_is_heard(data: Path) -> None:
    """The one in the test part says it; readers and Arabic words are of both parts; each kind of sound has time."""
    sources = recordings_of(data, ["computer", "jarvis"])
    assert (len(sources.keywords), len(sources.speech), len(sources.languages)) == (1, 3, 2)

    forms = takes_of(sources.keywords, 0, 3, seed=0)
    assert list(forms) == [ALONE] and len(forms[ALONE]) == 3
    scenes = [sound.scene for sound in write_scenes(wake_scenes(sources, forms, 0.2), _folder(data), 0)]

    said = [word.kind for scene in scenes for word in scene.words]
    assert said == [f"jarvis: {kind}" for kind in ("noise", "over speech", "after words") for _ in range(3)]
    hours = hours_of(scenes)
    assert list(hours) == ["speech", "words", "languages", "run together", "noise"]
    assert min(hours.values()) > 0


def _folder(data: Path) -> Path:
    folder = data.parent / "scenes"
    folder.mkdir(exist_ok=True)
    return folder


def _small(data: Path, peer: str, *more: str) -> list[str]:
    given = ["--data", str(data), "--minutes", "0.2", "--voices", "0", "--rounds", "1", "--passes", "1"]
    return [*given, "--peer", peer, *more]


@pytest.mark.slow
def test_the_whole_bench_in_small_with_ours_only(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both outputs say the same, in at most 80 columns; time and memory were taken."""
    monkeypatch.setattr("sys.argv", ["wake_peers.py", *_small(data, "none", "--json")])
    assert wake_peers.main() == 0
    result = msgspec.convert(json.loads(capsys.readouterr().out), Result)

    (heard,) = result.heard
    assert (heard.name, heard.word) == ("auricle home", "jarvis")
    assert result.takes == {ALONE: 1} and heard.hits[ALONE][EVERYWHERE][0].words == 3
    assert result.costs["auricle home"].cpu_seconds > 0 and result.costs["auricle home"].peak_bytes > 1 << 20
    text = text_of(result)
    assert max(map(len, text.splitlines())) <= 80
    assert "livekit-wakeword" in text and "auricle home" in text


@pytest.mark.slow
def test_scores_that_are_kept_are_not_heard_again(data: Path, tmp_path: Path) -> None:
    """A run that lacks some scores hears those alone and says the same; scores of other sound are refused."""
    kept = _small(data, "none", "--scores", str(tmp_path))
    first = run(arguments(kept))
    scores = sorted(tmp_path.glob("auricle-home-*.npy"))
    assert len(scores) == 8
    scores[0].unlink()
    before = {path.name: path.stat().st_mtime_ns for path in scores[1:]}

    again = run(arguments(kept))

    assert again.heard == first.heard
    assert {path.name: path.stat().st_mtime_ns for path in scores[1:]} == before and scores[0].exists()
    with pytest.raises(DataError, match="scores of other sound"):
        run(arguments([*kept, "--seed", "1"]))


@pytest.mark.slow
def test_a_peer_that_cannot_be_had_is_named_with_the_reason(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(step_environments.ENVIRONMENTS, "porcupine", Recipe(("nothing",), ("2.0",)))
    environment.cache_clear()
    result = run(arguments(_small(data, "porcupine", "--environments", str(tmp_path))))
    assert "needs Python 2.0" in result.missing["porcupine"]
    assert [heard.name for heard in result.heard] == ["auricle home"]
    assert "porcupine did not run" in text_of(result)


@pytest.mark.slow
@pytest.mark.parametrize("peer", list(PEERS))
@pytest.mark.nightly
def test_a_peer_listens_with_the_model_of_its_wheel(peer: str, data: Path) -> None:
    try:
        environment(peer)
    except NoEnvironment as reason:
        pytest.skip(str(reason))

    result = run(arguments(_small(data, peer)))

    assert result.missing == {}
    heard = result.heard[-1]
    assert (heard.name, heard.word) == (peer, PEERS[peer][0])
    assert heard.files_bytes > 10_000 and result.costs[peer].cpu_seconds > 0


def test_more_than_nothing_has_to_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["--data", ".", "--minutes", "0"])
    assert "have to be more than 0" in capsys.readouterr().err
