"""A classifier tuned on what the coordinator lends, and the gradients that leave where the owner allows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.edge.agent_site import Site, run, trainer, until
from tests.learning.toy import PACK, device
from tests.learning.toy_training import LITE, PLUGIN, plan_of, ran, trainer_of

from auricle.errors import AuricleError
from auricle.packs.pack import load_pack
from auricle.wire.messages import Update
from auricle.wire.plan import Lent, Noise, Plan
from auricle.wire.prior_knowledge import PriorKnowledge, Tuning, class_gradient, gradients_size, split_classifier
from auricle.wire.tensors import Flat, decode, digest
from auricle.wire.update_codec import length_of
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.mechanism import LentData
from auricle_learning.training.noise import noised
from auricle_learning.training.prior_knowledge import class_gradients, said_gradients, tuned
from auricle_learning.training.update_body import update_body

CLASSES, WIDTH = LITE.specs[-2].shape
HEAD = CLASSES * WIDTH + CLASSES


def lent(
    features: Flat, labels: tuple[int, ...], epochs: int = 1, rate: float = 0.1, size: int = HEAD
) -> PriorKnowledge:
    tuning = Tuning(features=max(1, features.shape[1]), epochs=epochs, rate=rate)
    return PriorKnowledge(np.zeros(size, np.float32), labels, features.astype(np.float32), tuning)


def test_one_step_by_hand() -> None:
    """W = 0: both answers are a half. Of h = 1 of class 0 and h = -1 of class 1 the gradient is (-½, ½), of b 0."""
    model = np.array([7.0, 0.0, 0.0, 0.0, 0.0], np.float32)  # a body of one weight, W (2, 1), b (2,)
    prior = lent(np.array([[[1.0]], [[-1.0]]]), (0, 1), size=4)
    np.testing.assert_allclose(tuned(model, prior), [7.0, 0.05, -0.05, 0.0, 0.0], atol=1e-7)
    assert model.tolist() == [7, 0, 0, 0, 0], "what was received stays as it was"


def test_a_step_takes_64_features_one_of_each_class_in_turn() -> None:
    """40 of each of two classes: a step of the first 32 of each, and one of the last 8, by the gradients of both."""
    rng = np.random.default_rng(1)
    model, features = rng.normal(size=8).astype(np.float32), rng.normal(size=(2, 40, 3)).astype(np.float32)
    prior = PriorKnowledge(np.zeros(8, np.float32), (0, 1), features, Tuning(features=40, epochs=1, rate=0.2))
    wanted = model.astype(np.float64)
    for part in (slice(0, 32), slice(32, 40)):
        weight, bias = split_classifier(wanted, 2)
        both = [class_gradient(features[k, part].astype(np.float64), k, weight, bias) for k in (0, 1)]
        wanted = wanted - 0.2 * np.mean(both, axis=0)
    np.testing.assert_allclose(tuned(model, prior), wanted, atol=1e-6)


def test_without_features_nothing_changes_and_a_step_beyond_all_numbers_is_refused() -> None:
    assert np.array_equal(tuned(PLUGIN, lent(np.zeros((0, 1, WIDTH)), ())), PLUGIN)
    with pytest.raises(AuricleError, match="gave weights that are not finite"):
        tuned(PLUGIN, lent(np.full((2, 1, WIDTH), 3e38), (0, 1), rate=10.0))


def test_before_every_epoch_it_asks_whether_the_round_goes_on() -> None:
    ones, asked = np.ones((2, 1, WIDTH)), iter([False, False, True])
    stopped = tuned(PLUGIN, lent(ones, (0, 1), epochs=9), lambda: next(asked))
    assert np.array_equal(stopped, tuned(PLUGIN, lent(ones, (0, 1), epochs=2)))
    assert next(asked, None) is None


def test_gradients_by_class_by_hand() -> None:
    """v = 0 and two classes: p is a half, so of class 0 with the mean feature 3 it is (-½, ½) times that, and for b."""
    prior = lent(np.zeros((0, 1, 1)), (), size=4)
    found = class_gradients(np.array([[2.0], [4.0]], np.float32), np.array([0, 0]), prior)
    assert found.tolist() == [-1.5, 1.5, -0.5, 0.5, 0, 0, 0, 0]
    assert class_gradients(np.zeros((0, 1), np.float32), np.zeros(0, np.int64), prior).tolist() == [0] * 8


@pytest.mark.parametrize("mode", ["mutual", "supervised"])
@pytest.mark.slow
def test_a_round_begins_with_the_tuned_classifier_and_says_gradients_only_where_the_owner_allows_it(mode: str) -> None:
    trainer = trainer_of(device(18))
    features = np.random.default_rng(2).normal(size=(CLASSES, 5, WIDTH))
    prior, plan = lent(features, tuple(range(CLASSES)), epochs=20), plan_of(mode=mode, rate=1e-9, plugin_ce=1.0)
    start = trainer.first_state()

    plain, kept = (trainer.run(plan, 1, PLUGIN, start, lent=LentData(known)) for known in (None, prior))
    trainer.settings = msgspec.structs.replace(trainer.settings, gradients=True)
    given = trainer.run(plan, 1, PLUGIN, start, lent=LentData(prior))

    assert plain.plugin == pytest.approx(PLUGIN, abs=1e-6)
    assert kept.plugin == pytest.approx(tuned(PLUGIN, prior), abs=1e-6)
    assert np.abs(kept.plugin - PLUGIN)[-HEAD:].max() > 1e-3
    assert kept.loss == plain.loss, "that of the model as it was received"
    assert plain.vectors == kept.vectors == {}
    assert trainer.run(plan, 1, PLUGIN, start).vectors == {}, "allowed, but not asked for"
    gradients = given.vectors["gradients"]
    clips = trainer.data.train
    seen = trainer.runtime.embeddings(PACK.manifest.plugin, given.plugin, trainer.frontend.finish(clips.energies))
    np.testing.assert_allclose(gradients, class_gradients(seen, clips.targets, prior), atol=1e-5)
    assert gradients.size == gradients_size(CLASSES, WIDTH)

    body, headers, _ = update_body(given, PLUGIN, plan, LITE, {})
    assert body[length_of(LITE, "float32") :] == gradients.astype("<f4").tobytes()
    assert [header.name for header in headers] == ["gradients"]
    noisy = plan_of(noise=Noise(clip=1.0, deviation=1.0))
    assert noised(given, PLUGIN, noisy).vectors == {}


def test_what_gradients_give_away() -> None:
    """The rank of a word's is its number of clips, up to C - 1; at a classifier of zeros it is their mean feature."""
    rng = np.random.default_rng(5)
    head = rng.normal(size=HEAD).astype(np.float32)
    prior, seen = replace(lent(np.zeros((0, 1, WIDTH)), ()), classifier=head), rng.normal(size=(9, WIDTH))
    for clips in range(1, 10):
        said = class_gradients(seen[:clips].astype(np.float32), np.zeros(clips, np.int64), prior)
        weights = said.reshape(CLASSES, -1)[0, : CLASSES * WIDTH].reshape(CLASSES, WIDTH)
        assert np.linalg.matrix_rank(weights, tol=1e-5) == min(clips, CLASSES - 1)
    chosen = replace(prior, classifier=np.zeros(HEAD, np.float32))
    said = class_gradients(seen.astype(np.float32), np.zeros(9, np.int64), chosen)
    rows = said.reshape(CLASSES, -1)[0, : CLASSES * WIDTH].reshape(CLASSES, WIDTH)
    np.testing.assert_allclose(rows[1] * CLASSES, seen.mean(axis=0), atol=1e-5)


class NoEmbeddings(StepRuntime):
    def embeddings(self, *_: object) -> Any:
        raise AuricleError("The runtime gives logits only.")


def test_a_device_whose_runtime_shows_no_features_gives_no_gradients(caplog: pytest.LogCaptureFixture) -> None:
    own, prior = trainer_of(device(8)), lent(np.zeros((0, 1, WIDTH)), ())
    own.runtime = NoEmbeddings(PACK)
    own.settings = msgspec.structs.replace(own.settings, gradients=True)
    found = own.run(plan_of(), 1, PLUGIN, own.first_state(), lent=LentData(prior))
    assert found.vectors == {} and found.steps
    assert "without gradients" in caplog.text


def test_between_pieces_of_clips_it_asks_whether_the_round_goes_on() -> None:
    prior, asked = lent(np.zeros((0, 1, 1)), (), size=4), iter([False, True])
    pieces = iter([np.array([[2.0]], np.float32), np.array([[4.0]], np.float32)])
    assert said_gradients(pieces, np.array([0, 0]), prior, lambda: next(asked)) is None
    assert next(pieces) == 4 and next(asked, None) is None


@pytest.mark.parametrize(("what", "says"), [("lost", "did not arrive"), ("damaged", "cannot be read")])
def test_who_cannot_have_or_use_what_is_lent_trains_as_in_any_round(
    what: str, says: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = StepRuntime(load_pack("digits"))
    classes, width = runtime.pack.plugin_table.specs[-2].shape
    prior = lent(np.ones((1, 4, width)), (1,), rate=10.0, size=classes * width + classes)
    data = b"damaged" if what == "damaged" else prior.to_bytes()
    named = Lent(blob=digest(data), length=len(data), chunks=1)

    async def case(site: Site) -> None:
        c, own = site.coordinator, trainer(runtime)
        if what != "lost":
            await c.offer(data)
        async with site.device(own, fetch_timeout=0.3) as agent:
            await c.say("inv", c.invite(site.model, prior=named))
            update = await c.wait(Update)
            await c.ack(update)
            await until(lambda: agent.state == "idle")
        start = decode(site.model, runtime.pack.plugin_table.size)
        untuned = ran(trainer(runtime), Plan(), start).plugin
        assert np.array_equal(decode(c.bodies()[0], start.size), untuned)

    run(case, runtime, tmp_path)
    assert says in caplog.text
