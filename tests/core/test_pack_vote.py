"""The vote of a pack: joined, read, judged, as a pack of its own, and refused where it does not fit."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.core.tiny_pack import TASK, pack

from auricle.checks.pack_checks import checks_of, require_sound
from auricle.errors import DataError, PackError
from auricle.hearing.vote import LEAST_POSTERIOR, add_vote
from auricle.packs.frontend import Frontend
from auricle.packs.manifest import FORMAT, NETWORK_FORMAT, Listening, Manifest, Vote
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.start import start_weights
from auricle.packs.vote import with_vote
from auricle_learning.presets import get_preset
from auricle_learning.runtimes import StepRuntime, recogniser

OTHER = msgspec.structs.replace(TASK, frames=TASK.frames, frontend=Frontend(mels=3, low_hz=50.0))
VOTER = pack(task=OTHER)


@pytest.fixture(name="joined")
def joined_pack() -> Pack:
    """The tiny pack, with the same model under another front-end as its vote."""
    return with_vote(pack(), VOTER, 0.25)


def test_a_pack_with_a_vote_is_read_back_and_sound(joined: Pack, tmp_path: Path) -> None:
    path = tmp_path / "joined.tar.zst"
    path.write_bytes(pack_bytes(joined))
    found = load_pack(path)
    assert found.manifest.format == NETWORK_FORMAT and found.identity == joined.identity
    vote = found.manifest.vote
    assert isinstance(vote, Vote) and (vote.model, vote.share, vote.frontend) == ("vote-lite", 0.25, OTHER.frontend)
    require_sound(found)
    files = [check.file for check in checks_of(found)]
    assert len(files) == len(set(files)) == 5 and {"vote/evaluate.onnx", "vote/weights.safetensors"} < set(files)


def test_its_vote_is_a_pack_of_its_own_that_a_runtime_runs(joined: Pack) -> None:
    voter = joined.voter
    assert voter is not None and voter is joined.voter and voter.voter is None
    assert (voter.labels, voter.manifest.plugin, voter.manifest.task) == (joined.labels, "vote-lite", OTHER)
    assert np.array_equal(start_weights(voter, "vote-lite"), start_weights(VOTER, "lite"))
    features = np.random.default_rng(0).normal(0, 0.1, (2, *OTHER.input_shape)).astype(np.float32)
    heard = []
    for each, model in ((voter, "vote-lite"), (VOTER, "lite")):
        recognise = recogniser(StepRuntime(each), model, start_weights(each, model))
        heard.append(recognise(features))
    assert np.array_equal(heard[0], heard[1])


def test_the_vote_is_no_model_of_rounds(joined: Pack) -> None:
    assert list(joined.tables) == ["lite"]
    with pytest.raises(PackError, match='no model "vote-lite"'):
        joined.table("vote-lite")
    get_preset("fedavg").require_pack(joined)


def test_another_vote_takes_the_place_of_the_one_before(joined: Pack) -> None:
    assert with_vote(joined, VOTER, 0.25).identity == joined.identity
    again, vote = with_vote(joined, VOTER, 0.5).manifest.vote, joined.manifest.vote
    assert isinstance(vote, Vote) and again == msgspec.structs.replace(vote, share=0.5)


def test_other_words_have_no_vote_and_the_same_words_keep_it(joined: Pack) -> None:
    plain = joined.with_labels(("a", "b"))
    assert plain.voter is None and plain.manifest.format == FORMAT
    assert plain.manifest_bytes == pack().with_labels(("a", "b")).manifest_bytes
    assert joined.with_labels(joined.labels).manifest.vote == joined.manifest.vote


def test_a_device_holds_what_the_vote_needs(joined: Pack, tmp_path: Path) -> None:
    path = tmp_path / "joined.tar.zst"
    path.write_bytes(pack_bytes(joined))
    held = load_pack(path)
    held.hold_only(())
    assert held.voter is not None
    assert np.array_equal(start_weights(held.voter, "vote-lite"), start_weights(VOTER, "lite"))


def test_packs_with_other_labels_are_not_joined() -> None:
    other = pack(task=msgspec.structs.replace(TASK, labels=("no", "yes", "up")))
    with pytest.raises(PackError, match="not the same labels"):
        with_vote(pack(), other, 0.5)
    with pytest.raises(PackError, match="no trained weights for lite"):
        with_vote(pack(), VOTER.with_labels(("a", "b")).with_labels(VOTER.labels), 0.5)


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"model": "lite"}, "not a model beside its plug-in"),
        ({"model": "gone"}, "names gone, which is not"),
        ({"share": 0.0}, "choose one between 0 and 1"),
        ({"share": 1.0}, "choose one between 0 and 1"),
        ({"share": float("nan")}, "choose one between 0 and 1"),
        ({"clip_samples": 72_000}, "a window of 4.5 s"),
    ],
)
def test_a_vote_that_does_not_fit_is_refused(joined: Pack, changes: dict[str, object], wrong: str) -> None:
    vote = joined.manifest.vote
    assert isinstance(vote, Vote)
    vote = msgspec.structs.replace(vote, **changes)
    with pytest.raises(PackError, match=wrong):
        Pack(msgspec.structs.replace(joined.manifest, vote=vote), joined.files)


def test_a_vote_without_weights_or_graph_or_as_second_stage_is_refused(joined: Pack) -> None:
    manifest = joined.manifest
    step = next(graph for graph in manifest.graphs if graph.trains)
    for changes, wrong in (
        ({"start": {"lite": manifest.start["lite"]}}, "has no trained weights"),
        ({"graphs": manifest.graphs[:-1]}, "a graph evaluate and nothing else"),
        ({"graphs": (*manifest.graphs, msgspec.structs.replace(step, model="vote-lite"))}, "nothing else"),
        ({"listening": Listening(second_stage="vote-lite")}, "beside its plug-in and second stage"),
    ):
        changed: Manifest = msgspec.structs.replace(manifest, **changes)
        with pytest.raises(PackError, match=wrong):
            Pack(changed, joined.files)


def test_the_mean_of_logarithms_worked_out_by_hand() -> None:
    first, vote = np.array([0.9, 0.1], np.float32), np.array([0.1, 0.9], np.float32)
    np.testing.assert_allclose(add_vote(first, vote, 0.5), [0.5, 0.5], rtol=1e-7)
    # 0.9^3/4 0.1^1/4 = 9^3/4 / 10 and 0.1^3/4 0.9^1/4 = 9^1/4 / 10: the ratio is the root of 9
    np.testing.assert_allclose(add_vote(first, vote, 0.25), [0.75, 0.25], rtol=1e-6)
    assert np.array_equal(add_vote(first, vote, 0), first) and np.array_equal(add_vote(first, vote, 1), vote)
    sure = add_vote(np.array([1, 0], np.float32), np.array([0, 1], np.float32), 0.5)
    np.testing.assert_allclose(sure, [0.5, 0.5], rtol=1e-6)
    both = np.array([1, 0], np.float32)
    np.testing.assert_allclose(add_vote(both, both, 0.5), [1, LEAST_POSTERIOR], rtol=1e-6)


def test_a_window_has_the_same_posteriors_alone_and_among_others() -> None:
    rng = np.random.default_rng(1)
    first, vote = (rng.dirichlet(np.full(12, 0.1), (7, 33)).astype(np.float32) for _ in range(2))
    together = add_vote(first, vote, 0.3)
    assert together.dtype == np.float32
    np.testing.assert_allclose(together.sum(axis=-1), 1, rtol=1e-6)
    alone = [[add_vote(first[i, j], vote[i, j], 0.3) for j in range(33)] for i in range(7)]
    assert np.array_equal(together, np.array(alone))


def test_posteriors_of_other_shapes_are_refused() -> None:
    with pytest.raises(DataError, match="no vote"):
        add_vote(np.ones((2, 3), np.float32), np.ones((1, 3), np.float32), 0.5)
