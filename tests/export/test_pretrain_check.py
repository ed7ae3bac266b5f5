"""Two models by one recipe, a second stage, and what was trained compared with what the recipe gives again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec import UNSET
from rich.console import Console
from tests.export.live_toy import FRONTEND, LABELS, heard
from tests.export.pretrain_toy import crnn_pack, write_pack
from tests.export.test_pretrain_recipe import RECIPE, write_data

from auricle.errors import PackError
from auricle.hearing.origins import Recordings
from auricle.packs.manifest import LISTENING_FORMAT, Listening
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.process.cli import main
from auricle_export.commands.pretrain_view import View
from auricle_export.commands.recipe_commands import show
from auricle_export.packs.start_weights import with_negatives
from auricle_export.pretrain import live_task, outcome
from auricle_export.pretrain.check import CheckTask, check_pack
from auricle_export.pretrain.comparison import Row
from auricle_export.pretrain.listening import command_streams
from auricle_export.pretrain.live_task import LivePack, LiveTask, pretrain_live
from auricle_export.pretrain.recipe import load_recipe
from auricle_export.pretrain.second_stage import Measured, Sound, Staged, compare_stages
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.streams import Streams, make_streams
from auricle_export.pretrain.task import Watch
from auricle_export.pretrain.trained import Epoch, TrainingInterrupted

MODELS = ("crnn-lite", "resnet-base")
SETTINGS = LiveSettings(device="cpu")


def two_models() -> Pack:
    """A pack of a plug-in and of a larger model, without graphs."""
    return crnn_pack(LABELS, MODELS, "two")


@dataclass
class Seen(Watch):
    """Remembers epochs and second stages."""

    epochs: list[tuple[str, int]] = field(default_factory=list)
    stages: list[Staged] = field(default_factory=list)

    def epoch(self, epoch: Epoch) -> None:
        self.epochs.append((epoch.model, epoch.number))

    def staged(self, stage: Staged) -> None:
        self.stages.append(stage)


@dataclass(frozen=True, eq=False)
class Trained:
    """A training that was interrupted between its two models, and went on."""

    data: Path
    recipe: Path
    made: LivePack
    first: Seen
    again: Seen
    kept: tuple[str, ...]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    root = tmp_path_factory.mktemp("two")
    data, path = write_data(root / "data"), root / "toy.toml"
    text = RECIPE.format(pack=write_pack(root / "two.tar.zst", two_models())).replace('wake = ["high"]\n', "")
    head, _ = text.split("[epochs]")
    epochs = "".join(f"{model} = 2\n" for model in MODELS)
    path.write_text(head.replace("steps = 8", "steps = 4") + f"[epochs]\n{epochs}[settings]\nbatch = 16\njudged = 1\n")
    recipe, first, again = load_recipe(str(path)), Seen(), Seen()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_task, "WATCHING_TIMES", 1)
        patch.setattr(outcome, "CHOOSING_TIMES", 2)
        patch.setattr(outcome, "JUDGING_TIMES", 1)
        task = LiveTask(recipe, data, root / "state", SETTINGS)
        with pytest.raises(TrainingInterrupted):
            pretrain_live(two_models(), task, watch=first, stopped=lambda: len(first.epochs) == 3)
        kept = tuple(sorted(path.name for path in (root / "state").iterdir()))
        yield Trained(data, path, pretrain_live(two_models(), task, watch=again), first, again, kept)


@pytest.mark.slow
@pytest.mark.nightly
def test_two_models_train_one_after_the_other_and_each_keeps_its_state(trained: Trained) -> None:
    assert trained.first.epochs == [("crnn-lite", 1), ("crnn-lite", 2), ("resnet-base", 1)]
    assert trained.kept == ("crnn-lite.safetensors", "resnet-base.safetensors")
    assert trained.again.epochs == [("resnet-base", 2)]
    starts = trained.made.pack.manifest.start
    assert set(starts) == set(MODELS) and len({start.speech for start in starts.values()}) == 1
    assert starts["crnn-lite"].clips == starts["resnet-base"].clips == 12


@pytest.mark.slow
@pytest.mark.nightly
def test_the_second_stage_is_in_the_pack_only_where_it_hears_more(trained: Trained) -> None:
    (stage,) = trained.again.stages
    listening = trained.made.listening
    assert stage.model == "resnet-base" and set(listening.thresholds) == {"high", "low"}
    assert listening.second_stage == ("resnet-base" if stage.taken else UNSET)
    assert (listening == stage.listening) is stage.taken
    assert trained.made.pack.manifest.format == LISTENING_FORMAT


@pytest.mark.slow
@pytest.mark.nightly
def test_a_pack_is_what_its_recipe_gives(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "made.tar.zst"
    path.write_bytes(pack_bytes(trained.made.pack))
    check = ["export", "pretrain", "--recipe", str(trained.recipe), "--data", str(trained.data), "--check", str(path)]
    assert main([*check, "--compute", "cpu", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["same"] and said["identity"] == load_pack(path).identity and not said["notes"]
    assert {row["same"] for row in said["rows"]} == {True}
    whats = [row["what"] for row in said["rows"]]
    assert {"crnn-lite: digest of the speech", "resnet-base: hits at 5 an hour", 'threshold "low"'} < set(whats)
    assert whats[-1] == "negatives" and len(whats) == 2 * (7 + 2 + 6) + 7 + 2 + 1


@pytest.mark.slow
@pytest.mark.nightly
def test_what_differs_is_found_and_what_an_older_pack_does_not_say_is_left_out(trained: Trained) -> None:
    pack = trained.made.pack
    crnn, resnet = (pack.manifest.start[model] for model in MODELS)
    wrong = msgspec.structs.replace(crnn, speech="0" * 64, accuracy=1 - crnn.accuracy, speakers=99)
    old = msgspec.structs.replace(resnet, speech=UNSET, hearing=UNSET, attribution=("somebody else",))
    level = trained.made.listening.thresholds["low"]
    other = msgspec.structs.replace(trained.made.listening, thresholds={"low": level / 2, "high": 1.0}, window=2.0)
    manifest = msgspec.structs.replace(pack.manifest, start={"crnn-lite": wrong, "resnet-base": old}, listening=other)
    quiet = [("noise", np.full((200, 40), 1e-3, np.float32))]
    changed = with_negatives(Pack(manifest, pack.files), quiet)
    found = check_pack(changed, CheckTask(load_recipe(str(trained.recipe)), trained.data, SETTINGS))
    rows = {row.what: row for row in found.rows}
    assert not found.same and len(found.notes) == 2
    assert rows["resnet-base: digest of the speech"].same is None and rows["resnet-base: hits"].same is None
    differing = {what for what, row in rows.items() if row.same is False}
    expected = {f"crnn-lite: {what}" for what in ("digest of the speech", "speakers", "clips right")}
    expected |= {"listening: window", "resnet-base: attribution", 'threshold "low"', "negatives"}
    assert expected <= differing <= {*expected, 'threshold "high"'}
    assert rows["crnn-lite: speakers"] == Row(what="crnn-lite: speakers", pack="99", found="4", same=False)
    assert rows["resnet-base: attribution"].pack == "1 named: somebody else"
    assert found.kinds == ("after words", "noise", "over speech")
    page = StringIO()
    show(found, Console(file=page, width=80))
    assert sum("DIFFERS" in line for line in page.getvalue().splitlines()) == len(differing)
    assert "not compared" in page.getvalue()


@pytest.mark.slow
@pytest.mark.nightly
def test_a_comparison_can_be_interrupted_and_needs_weights(trained: Trained) -> None:
    task = CheckTask(load_recipe(str(trained.recipe)), trained.data, SETTINGS)
    with pytest.raises(TrainingInterrupted):
        check_pack(trained.made.pack, task, stopped=lambda: True)
    with pytest.raises(PackError, match="crnn-lite, resnet-base"):
        check_pack(two_models(), task)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--recipe home --check --out x", "--out"),
        ("--recipe home --check --seed 3", "--seed"),
        ("--recipe home --check a --pack b", "Two packs"),
        ("--recipe home a", '"a"'),
        ("--recipe home --check", "--data"),
        ("--recipe home --data x", "pack"),
        ("--recipe home --data x --out x --epochs 3", "--epochs"),
        ("--check", "--recipe"),
        ("--attribution me", "--recipe"),
        ("--data x --out x --words a --words b", "--words"),
        ("--out x", "--data"),
    ],
)
def test_options_that_do_not_fit_are_said(arguments: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "pretrain", *arguments.split()]) == 2
    said = capsys.readouterr().err
    assert says in said.replace("\n", " ") and "Traceback" not in said


@pytest.fixture(scope="module")
def streams() -> Streams:
    return make_streams(heard(), LABELS, FRONTEND, 0, passes=1, negatives=1, seconds=12)


def sound(streams: Streams, right: float, mistaken: float, commands: Streams | None = None) -> Sound:
    """What a model hears that gives words one posterior, and half a second of each scene without words another."""
    commanded = None if commands is None else told(commands, right, mistaken)
    return Sound(streams, told(streams, right, mistaken), commands, commanded)


def told(streams: Streams, right: float, mistaken: float) -> list[np.ndarray]:
    found = []
    for scene in streams.scenes:
        rows = np.tile(np.array([0.0, 0.0, 0.9, 0.1], np.float32), (len(scene.samples) // 1_600, 1))
        for word in scene.words:
            rows[word.end // 1_600 : word.end // 1_600 + 5, LABELS.index(word.word)] = right
        if not scene.words:
            rows[20:25, LABELS.index("high")] = mistaken
        found.append(rows)
    return found


def test_a_second_stage_that_knows_better_is_taken_and_its_thresholds_are_for_both(streams: Streams) -> None:
    """Alone, "high" is mistaken four times in 42 s, at the 0.6 at which it is right; both give 0.75 and 0.31."""
    first, second = sound(streams, 0.6, 0.6), sound(streams, 0.9, 0.02)
    stage = compare_stages(first, second, "large", (), open_rate=300)
    assert stage.alone == Measured(0.0, 0.0) and stage.both == Measured(1.0, 0.0)
    assert stage.taken and stage.listening.second_stage == "large"
    assert 0.31 < stage.listening.thresholds["high"] <= 0.75
    hours = 4 / first.measured(Listening(thresholds={"high": 0.5, "low": 0.5})).false_accepts
    assert hours == pytest.approx(sum(s.end - s.start for c in streams.scenes for s in c.stretches) / 16_000 / 3_600)


def test_a_second_stage_that_hears_no_more_is_left_out(streams: Streams) -> None:
    first = sound(streams, 0.6, 0.02)
    same = compare_stages(first, first, "large", (), open_rate=300)
    deaf = compare_stages(first, sound(streams, 0.0, 0.0), "large", (), open_rate=300)
    assert same.alone == same.both == Measured(1.0, 0.0) and not same.taken
    assert deaf.both.heard < deaf.alone.heard == 1.0 and not deaf.taken


def test_with_a_wake_word_the_commands_decide(streams: Streams) -> None:
    """The plug-in gives commands 0.35, less than any command's threshold; both give 0.65."""
    commands = command_streams(heard(), streams, ("high",), 0)
    first, second = sound(streams, 0.35, 0.02, commands), sound(streams, 0.95, 0.02, commands)
    stage = compare_stages(first, second, "large", ("high",), wake_rate=300)
    assert stage.alone == Measured(0.0, 0.0) and stage.both.heard > 0.9 and stage.both.false_accepts == 0.0
    assert stage.taken and stage.listening.wake == ("high",) and 0.5 <= stage.listening.commands["low"] <= 0.65


@pytest.mark.parametrize(
    ("alone", "both", "taken"),
    [
        (Measured(0.5, 4.0), Measured(0.6, 5.0), True),
        (Measured(0.5, 4.0), Measured(0.5, 3.0), False),
        (Measured(0.5, 4.0), Measured(0.9, 5.1), False),
        (Measured(0.5, 6.0), Measured(0.9, 5.5), True),
        (Measured(0.5, 4.0, 0.01), Measured(0.9, 4.0, 0.04), False),
        (Measured(0.5, 4.0, 0.0, 0.04), Measured(0.9, 4.0, 0.0, 0.04), True),
    ],
)
def test_more_hits_count_only_at_no_more_false_accepts(alone: Measured, both: Measured, taken: bool) -> None:
    assert Staged("large", alone, both, Listening(), 5.0).taken is taken


def test_false_accepts_are_counted_by_recording_too(streams: Streams) -> None:
    """In each of four scenes something is mistaken once; their recordings may be the same."""
    first = sound(streams, 0.6, 0.6)
    found = first.measured(Listening(thresholds={"high": 0.5, "low": 0.5}))
    quiet = first.measured(Listening(thresholds={"high": 0.9, "low": 0.9}))
    assert sum(found.recordings.false_accepts.values()) == 4 and 1 <= found.recordings.bad <= 4
    assert quiet.recordings.bad == 0 and quiet.recordings.heard == found.recordings.heard > 4
    assert found == Measured(1.0, found.false_accepts)


def test_the_command_says_from_how_many_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    measured = Measured(0.9, 0.5, recordings=Recordings({"a": 18, "b": 1}, 40, 0.2))
    with View(as_json=True) as view:
        view.chosen(Listening(), measured)
        view.staged(Staged("large", measured, Measured(1.0, 0.0), Listening(), 5.0))
    chosen, staged = map(json.loads, capsys.readouterr().out.splitlines())
    assert chosen["chosen"]["recordings"] == {"with_false_accepts": 2, "heard": 40}
    assert staged["recordings"]["alone"]["with_false_accepts"] == 2
    with View(as_json=False) as view:
        view.chosen(Listening(wake=("high",)), measured)
        view.staged(Staged("large", measured, Measured(1.0, 0.0), Listening(), 5.0))
    said = capsys.readouterr().err
    assert "2 of 40 recordings" in said and "(alone 0.5 from 2)" in said
