"""Two models by one recipe, and what was trained compared with what the recipe gives again."""

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
from tests.export.pretrain_toy import write_pack
from tests.export.test_pretrain_live import LABELS
from tests.export.test_pretrain_recipe import RECIPE, write_data

from auricle.errors import PackError
from auricle.packs.manifest import FORMAT, LISTENING_FORMAT, Manifest, Task
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.process.cli import main
from auricle_export.commands.recipe_commands import show
from auricle_export.compiler.trace import find_parts
from auricle_export.packs.author import tensor_specs
from auricle_export.packs.models import built_in
from auricle_export.packs.start_weights import with_negatives
from auricle_export.pretrain import live_task, outcome
from auricle_export.pretrain.check import CheckTask, check_pack
from auricle_export.pretrain.comparison import Row
from auricle_export.pretrain.live_task import LivePack, LiveTask, pretrain_live
from auricle_export.pretrain.recipe import load_recipe
from auricle_export.pretrain.second_stage import Staged
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.task import Watch
from auricle_export.pretrain.trained import Epoch, TrainingInterrupted

MODELS = ("crnn-lite", "resnet-base")
SETTINGS = LiveSettings(device="cpu")


def two_models() -> Pack:
    """A pack of a plug-in and of a larger model, without graphs."""
    count = len(LABELS)
    specs = {model: tensor_specs(find_parts(built_in(model, count), count), count) for model in MODELS}
    manifest = Manifest(
        format=FORMAT,
        name="two",
        task=Task(LABELS),
        plugin=MODELS[0],
        architectures=specs,
        graphs=(),
        files=(),
        producers={},
    )
    return Pack(manifest, {})


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
        patch.setattr(live_task, "WATCHING", 1)
        patch.setattr(outcome, "CHOOSING", 2)
        patch.setattr(outcome, "JUDGING", 1)
        task = LiveTask(recipe, data, root / "state", SETTINGS)
        with pytest.raises(TrainingInterrupted):
            pretrain_live(two_models(), task, watch=first, stopped=lambda: len(first.epochs) == 3)
        kept = tuple(sorted(path.name for path in (root / "state").iterdir()))
        yield Trained(data, path, pretrain_live(two_models(), task, watch=again), first, again, kept)


@pytest.mark.slow
def test_two_models_train_one_after_the_other_and_each_keeps_its_state(trained: Trained) -> None:
    assert trained.first.epochs == [("crnn-lite", 1), ("crnn-lite", 2), ("resnet-base", 1)]
    assert trained.kept == ("crnn-lite.safetensors", "resnet-base.safetensors")
    assert trained.again.epochs == [("resnet-base", 2)]
    starts = trained.made.pack.manifest.start
    assert set(starts) == set(MODELS) and len({start.speech for start in starts.values()}) == 1
    assert starts["crnn-lite"].clips == starts["resnet-base"].clips == 12


@pytest.mark.slow
def test_the_second_stage_is_in_the_pack_only_where_it_hears_more(trained: Trained) -> None:
    (stage,) = trained.again.stages
    listening = trained.made.listening
    assert stage.model == "resnet-base" and set(listening.thresholds) == {"high", "low"}
    assert listening.second_stage == ("resnet-base" if stage.taken else UNSET)
    assert (listening == stage.listening) is stage.taken
    assert trained.made.pack.manifest.format == LISTENING_FORMAT


@pytest.mark.slow
def test_a_pack_is_the_same_as_what_its_recipe_gives(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "made.tar.zst"
    path.write_bytes(pack_bytes(trained.made.pack))
    check = ["export", "pretrain", "--recipe", str(trained.recipe), "--data", str(trained.data), "--check", str(path)]
    assert main([*check, "--compute", "cpu", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["same"] and said["identity"] == load_pack(path).identity and not said["notes"]
    assert {row["same"] for row in said["rows"]} == {True}
    whats = [row["what"] for row in said["rows"]]
    assert {"crnn-lite: digest of the speech", "resnet-base: hits at 5 an hour", 'threshold "low"'} < set(whats)
    assert whats[-1] == "negatives" and len(whats) == 2 * (7 + 2 + 6) + 6 + 2 + 1


@pytest.mark.slow
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
    expected = {
        "crnn-lite: digest of the speech",
        "crnn-lite: speakers",
        "crnn-lite: clips right",
        "listening: window",
        "resnet-base: attribution",
        'threshold "low"',
        "negatives",
    }
    assert expected <= differing <= {*expected, 'threshold "high"'}
    assert rows["crnn-lite: speakers"] == Row(what="crnn-lite: speakers", pack="99", found="4", same=False)
    assert rows["resnet-base: attribution"].pack == "1 named: somebody else"
    assert found.kinds == ("after words", "noise", "over speech")
    page = StringIO()
    show(found, Console(file=page, width=80))
    lines = page.getvalue().splitlines()
    assert max(map(len, lines)) <= 80 and sum("DIFFERS" in line for line in lines) == len(differing)
    assert "not compared: the pack was written before" in page.getvalue().replace("\n", " ")


@pytest.mark.slow
def test_a_comparison_can_be_interrupted_and_needs_weights(trained: Trained) -> None:
    task = CheckTask(load_recipe(str(trained.recipe)), trained.data, SETTINGS)
    with pytest.raises(TrainingInterrupted):
        check_pack(trained.made.pack, task, stopped=lambda: True)
    with pytest.raises(PackError, match="no trained weights of crnn-lite, resnet-base"):
        check_pack(two_models(), task)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--recipe", "home", "--check", "--out", "x"], "--check takes no --out"),
        (["--recipe", "home", "--check", "--seed", "3"], "--check takes no --seed"),
        (["--recipe", "home", "--check", "a", "--pack", "b"], "Two packs are named"),
        (["--recipe", "home", "a"], '"a" stands alone'),
        (["--recipe", "home", "--check"], 'reads the folder "gsc-more": say with --data'),
        (["--recipe", "home", "--data", "x"], "Say which pack to write"),
        (["--recipe", "home", "--data", "x", "--out", "x", "--epochs", "3"], "--epochs is decided by the recipe"),
        (["--check"], "--check needs --recipe"),
        (["--attribution", "me"], "--attribution needs --recipe"),
        (["--data", "x", "--out", "x", "--words", "a", "--words", "b"], "Give --words once"),
        (["--out", "x"], "Say what to train on with --data"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "pretrain", *arguments]) == 2
    said = capsys.readouterr().err
    assert says in said.replace("\n", " ") and "Traceback" not in said
