"""A third vote: what is refused, the head that votes, and the whole command in small."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.export.frozen_toy import layers, onnx_file, toy_network, toy_network_pack
from tests.export.live_toy import pack
from tests.export.pretrain_toy import write_pack
from tests.export.test_pretrain_recipe import RECIPE, write_data

from auricle.errors import PackError
from auricle.packs.manifest import Listening, Start, Vote
from auricle.packs.pack import Pack, load_pack
from auricle.process.cli import main
from auricle_export.commands.pretrain_view import View
from auricle_export.packs.models import HEADS, WIDE_HEAD, make_module
from auricle_export.pretrain import outcome, third_vote
from auricle_export.pretrain.live_task import with_starts
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.third_vote import SHARES, join, own_models, voter_pack
from auricle_export.pretrain.trained import Epoch, Trained


def test_a_vote_stands_beside_both_stages_of_home() -> None:
    assert own_models(load_pack("home")) == ("resnet-lite", "resnet-base")


def test_the_wide_head_has_some_68_000_weights() -> None:
    """Two convolutions of 3 vectors of 96 numbers to 64 and on to 64, 12 x 64 to 48 units, those to 14 labels."""
    head = make_module(WIDE_HEAD, 14, 96, 12)
    due = 3 * 96 * 64 + 64 + 3 * 64 * 64 + 64 + 12 * 64 * 48 + 48 + 48 * 14 + 14
    assert sum(each.numel() for each in head.parameters()) == due == 68_446


@pytest.mark.slow
def test_a_pack_with_two_stages_keeps_them_beside_its_vote() -> None:
    home = load_pack("home")
    voter = voter_pack(home, toy_network())
    start = Start(file="weights/head.safetensors", data="nothing", clips=1, speakers=1, accuracy=0.0, judged_clips=1)
    drawn = Trained(np.zeros(voter.table(WIDE_HEAD).size, np.float32), 0.0, 0, 1, 1, 0.0, 0.0)
    listening = home.manifest.listening
    assert isinstance(listening, Listening) and listening.second_stage == "resnet-base"
    made = join(home, voter, start, drawn, listening, 0.3).manifest
    assert made.listening == listening and isinstance(made.vote, Vote) and made.vote.share == 0.3


@pytest.mark.slow
def test_a_pack_that_nobody_listens_with_has_no_use_for_a_vote() -> None:
    with pytest.raises(PackError, match="toy has a network in its front-end: a vote is for a pack"):
        own_models(toy_network_pack())
    with pytest.raises(PackError, match="says no thresholds"):
        own_models(pack())
    whole = msgspec.structs.replace(pack().manifest, listening=Listening(thresholds={"high": 0.5}))
    with pytest.raises(PackError, match="has no trained weights of resnet-lite"):
        own_models(Pack(whole, pack().files))


@pytest.mark.slow
def test_the_head_that_votes_is_wide_and_for_the_words_of_the_pack() -> None:
    voter = voter_pack(pack(), toy_network())
    assert voter.labels == pack().labels and voter.manifest.plugin == WIDE_HEAD
    frames, size = voter.manifest.task.input_shape
    wide, hidden, labels = HEADS[WIDE_HEAD].channels, HEADS[WIDE_HEAD].hidden, len(voter.labels)
    both = 3 * size * wide + wide + 3 * wide * wide + wide
    assert voter.table(WIDE_HEAD).size == both + frames * wide * hidden + hidden + hidden * labels + labels


def _refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["export", "vote", *arguments]) != 0
    return capsys.readouterr().err


@pytest.mark.slow
def test_what_cannot_be_meant_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "out.tar.zst")]
    assert "is for single clips" in _refused(["home", "--recipe", "digits", *out], capsys)
    assert 'no recipe "hom"' in _refused(["home", "--recipe", "hom", *out], capsys)
    network = tmp_path / "toy.onnx"
    assert "cannot be read as a front-end" in _refused(
        ["home", "--recipe", "home", "--frontend", str(network), *out], capsys
    )
    network.write_bytes(onnx_file(layers()))
    said = _refused(["home", "--recipe", "home", "--frontend", str(network), *out], capsys)
    assert "--data" in said
    assert not list(tmp_path.glob("out*"))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command without its --out: a pack whose weights are drawn, a toy network, and one epoch of little sound."""
    small = LiveSettings(epochs=1, steps=8, batch=64, rate=2e-3, composed=256)
    monkeypatch.setattr(third_vote, "usual_settings", lambda: small)
    for module, name in ((third_vote, "WATCHING_TIMES"), (third_vote, "CHOOSING_TIMES"), (outcome, "JUDGING_TIMES")):
        monkeypatch.setattr(module, name, 1)
    data, recipe, network = write_data(tmp_path / "data"), tmp_path / "toy.toml", tmp_path / "toy.onnx"
    trained = write_pack(tmp_path / "toy.tar.zst", _drawn_pack())
    recipe.write_text(RECIPE.format(pack=trained))
    network.write_bytes(onnx_file(layers()))
    given = ["--recipe", str(recipe), "--data", str(data), "--frontend", str(network)]
    return ["export", "vote", str(trained), *given, "--json"]


@pytest.mark.slow
@pytest.mark.nightly
def test_the_command_gives_a_pack_a_vote_with_a_share_that_was_compared(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is heard of it is compared by four shares; the pack's own model stays."""
    out = tmp_path / "out.tar.zst"

    assert main([*asked, "--out", str(out)]) == 0

    facts, done = json.loads(capsys.readouterr().out.splitlines()[-1]), load_pack(str(out))
    assert facts["identity"] == done.identity
    assert done.voter is not None and done.voter.manifest.plugin == WIDE_HEAD
    vote = done.manifest.vote
    assert vote is not msgspec.UNSET and vote.share == facts["share"] in SHARES
    assert list(facts["hits"]) == ["0", *(f"{share:g}" for share in SHARES)]
    assert facts["hits"][f"{vote.share:g}"] == max(facts["hits"][f"{share:g}"] for share in SHARES)
    assert done.manifest.start["resnet-lite"] == _drawn_pack().manifest.start["resnet-lite"]
    assert done.listening is not None and done.listening.wake == ("high",)
    assert not list(tmp_path.glob("*.state"))


@pytest.mark.slow
@pytest.mark.nightly
def test_an_interrupted_command_names_the_one_that_goes_on_to_the_same_pack(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C after the first of two epochs, and a training that nobody interrupts."""
    whole, out, epochs = tmp_path / "whole.tar.zst", tmp_path / "my packs" / "out.tar.zst", list[int]()

    def note(_: View, epoch: Epoch) -> None:
        epochs.append(epoch.number)
        if len(epochs) == 1:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(View, "epoch", note)
        assert main([*asked, "--epochs", "2", "--out", str(out)]) == 130
        last = json.loads(capsys.readouterr().out.splitlines()[-1])
        again = shlex.split(last["go_on"])
        assert last["interrupted"] is True and not out.exists()
        assert again[:3] == ["auricle", "export", "vote"] and again[-2:] == ["--state", f"{out}.state"]
        assert main(again[1:]) == 0
    assert main([*asked, "--epochs", "2", "--out", str(whole)]) == 0

    assert epochs == [1, 2]
    assert out.read_bytes() == whole.read_bytes()
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def _drawn_pack() -> Pack:
    """The toy pack with thresholds, and weights that nobody trained."""
    bare = pack()
    size = bare.table("resnet-lite").size
    weights = np.random.default_rng(0).normal(0, 0.05, size).astype(np.float16).astype(np.float32)
    file = "weights/resnet-lite.safetensors"
    start = Start(file=file, data="nothing", clips=1, speakers=1, accuracy=0.0, judged_clips=1)
    drawn = Trained(weights, 0.0, 0, 1, 1, 0.0, 0.0)
    listening = Listening(thresholds={"high": 0.5})
    return with_starts(bare, {"resnet-lite": start}, {"resnet-lite": drawn}, listening)
