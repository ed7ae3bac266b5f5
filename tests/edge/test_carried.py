"""The negatives that a pack carries: who trains on what, and that a round without them is the one it always was."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.bare_pack import bare_pack
from tests.edge.judge_toy import DETECT as TOY_DETECT
from tests.edge.judge_toy import PACK, stretches, taught
from tests.learning.toy import clips

from auricle.packs.pack import Pack
from auricle.speech.features import LogMel
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.training.judge.sound import load_negatives
from auricle_export.packs.start_weights import with_negatives
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.batches import Pseudo, batches, fixmatch_batches, mixed_batches
from auricle_learning.training.carried import Carried, carried_to_train, judged_part, trained_frames
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import RoundResult, Trainer

TWELVE = bare_pack("gsc12")
UNKNOWN, SILENCE = TWELVE.labels.index("_unknown_"), TWELVE.labels.index("_silence_")
DETECT = DetectSettings(vad="off")


def numbered(*lengths: int) -> list[np.ndarray]:
    """Stretches in which every frame says which stretch it is of and where it lies."""
    made = []
    for which, length in enumerate(lengths):
        frames = np.empty((length, 40), np.float32)
        frames[:, 0::2], frames[:, 1::2] = which, np.arange(length)[:, None]
        made.append(frames)
    return made


def carried(share: float = 0.5, targets: tuple[int, ...] = (2, 2)) -> Carried:
    return Carried(tuple(numbered(100, 300)), targets, 100, share)


def noisy(*lengths: tuple[str, int]) -> Pack:
    rng = np.random.default_rng(0)
    made = [(kind, rng.gamma(1.0, size=(length, 40)).astype(np.float32)) for kind, length in lengths]
    return with_negatives(TWELVE, made)


def _same(energies: np.ndarray) -> np.ndarray:
    return energies


def test_a_stretch_is_cut_in_two_where_each_half_has_three_clips() -> None:
    assert [trained_frames(length, 100) for length in (100, 599, 600, 601, 12000)] == [0, 0, 300, 300, 6000]
    first, second = judged_part(numbered(599, 601), 100)
    assert (first[0, 1], len(first), second[0, 1], len(second)) == (0, 599, 300, 301)


def test_the_judge_and_training_share_no_frame_and_leave_none_out() -> None:
    pack = noisy(("speech", 1201), ("words", 500), ("noise", 700))
    trained = carried_to_train(pack, 0.5, 0)
    judged = load_negatives(pack, DETECT, 15).streams.stretches
    assert trained is not None
    assert [len(stretch) for stretch in trained.stretches] == [600, 350]
    assert [len(stretch) for stretch in judged] == [601, 500, 350]
    whole = pack.negatives()
    assert np.array_equal(np.concatenate([trained.stretches[0][:], judged[0][:]]), whole[0])
    assert np.array_equal(judged[1], whole[1])
    assert np.array_equal(np.concatenate([trained.stretches[1][:], judged[2][:]]), whole[2])
    rows = {row.tobytes() for stretch in judged for row in stretch}
    drawn = trained.draw(500, np.random.default_rng(0))
    assert not rows & {row.tobytes() for row in drawn.energies.reshape(-1, 40)}


def test_a_judge_with_few_minutes_takes_the_first_of_the_judged_half() -> None:
    pack = noisy(("noise", 12000))
    (part,) = load_negatives(pack, DETECT, 0.5).streams.stretches
    assert np.array_equal(part, pack.negatives()[0][6000:9000])


def test_windows_come_from_every_place_alike_and_have_their_stretchs_label() -> None:
    """One place in the first stretch, 201 in the second: 2,020 draws give about 10 and 2,010."""
    drawn = carried(targets=(0, 2)).draw(2020, np.random.default_rng(1))
    which, first = drawn.energies[:, 0, 0].astype(int), drawn.energies[:, 0, 1].astype(int)
    assert drawn.energies.shape == (2020, 100, 40)
    assert 2 <= int((which == 0).sum()) <= 25
    assert (first[which == 0] == 0).all()
    assert set(first[which == 1].tolist()) == set(range(201))
    assert drawn.targets.tolist() == np.where(which == 0, 0, 2).tolist()
    for window, at in zip(drawn.energies[:20], first, strict=False):
        assert window[:, 1].tolist() == list(range(at, at + 100))


def test_nobody_speaks_in_noise() -> None:
    found = carried_to_train(noisy(("speech", 600), ("run together", 600), ("noise", 600)), 0.5, 0)
    assert found is not None
    assert found.targets == (UNKNOWN, UNKNOWN, SILENCE)


def test_a_pack_without_these_labels_trains_on_none() -> None:
    made = noisy(("speech", 600), ("noise", 600))
    for pack, share in (
        (made.with_labels(("yes", "no")), 0.5),
        (TWELVE, 0.5),
        (made, 0.0),
        (noisy(("speech", 599)), 0.5),
    ):
        assert carried_to_train(pack, share, 0) is None


@pytest.mark.parametrize(("own", "share"), [(0, 0.5), (50, 0.4), (200, 0.25), (600, 0.125)])
def test_own_negatives_take_the_place_of_the_packs(own: int, share: float) -> None:
    found = carried_to_train(noisy(("speech", 600)), 0.5, own)
    assert found is not None
    assert found.share == pytest.approx(share)


@pytest.mark.parametrize(("share", "windows"), [(0.5, 8), (0.3, 5), (0.9, 14), (0.01, 0)])
def test_windows_have_their_share_of_places_and_of_the_weight(share: float, windows: int) -> None:
    data = clips(20)

    seen = list(batches(data, 3, 16, np.random.default_rng(0), _same, carried(share)))

    places = 16 - windows
    assert len(seen) == -(-20 // places)
    for batch in seen:
        weight = batch["weight"]
        assert (batch["x"].shape, batch["target"].shape) == ((16, 100, 40), (16, 3))
        assert weight.dtype == np.float32
        if windows:
            assert weight[places:].sum() / weight.sum() == pytest.approx(share)
            assert np.unique(weight[places:]).size == 1
            assert (batch["target"].argmax(axis=1)[places:] == 2).all()
    met = np.concatenate([batch["x"][:places][batch["weight"][:places] > 0, 0, 0] for batch in seen])
    assert sorted(met.tolist()) == sorted(data.energies[:, 0, 0].tolist())
    assert sum(int((batch["weight"][:places] > 0).sum()) for batch in seen) == 20


def test_clips_without_a_label_leave_the_windows_their_share_of_the_labelled_part() -> None:
    """Of 16 places eight are the labelled half's, four of these windows; its weights still sum to 1."""
    pseudo, rng = Pseudo(clips(5, 9), np.array([1, 4])), np.random.default_rng(0)
    for batch in mixed_batches(clips(10), pseudo, 2.0, 3, 16, rng, _same, _same, carried()):
        assert batch["weight"][:8].sum() == pytest.approx(1.0)
        assert batch["weight"][4:8].tolist() == pytest.approx([0.5 / 4] * 4)
        assert batch["weight"][8:].sum() == pytest.approx(2.0 * 2 / 5)
    (batch,) = fixmatch_batches(clips(8), pseudo, 3, 16, rng, _same, _same, _same, carried())
    assert batch["weight"][8:].sum() == pytest.approx(batch["weight"][:8].sum()) == 8
    assert batch["weight.unlabelled"].sum() == 5


def _round(pack: Pack, share: float, data: DeviceData) -> RoundResult:
    trainer = Trainer(StepRuntime(pack), "crnn-lite", data, 0, settings=LearnSettings(clips=1, carried=share))
    plan = Plan(augment=True, optimizer="adamw", rate=1e-3)
    return trainer.run(plan, 1, pack.plugin_table.initial(0), trainer.first_state())


@pytest.mark.slow
def test_a_pack_without_negatives_trains_as_before_bit_for_bit() -> None:
    data = DeviceData(clips(24, 0), clips(6, 1), None)
    with_sound = with_negatives(PACK, [("speech", np.concatenate(stretches(4)))])
    asked, not_asked = _round(PACK, 0.5, data), _round(PACK, 0.0, data)
    off, on = _round(with_sound, 0.0, data), _round(with_sound, 0.5, data)
    for same in (not_asked, off):
        assert np.array_equal(asked.plugin, same.plugin)
        assert np.array_equal(asked.local.weights, same.local.weights)
    assert not np.array_equal(asked.plugin, on.plugin)
    assert on.steps == 2 * asked.steps - 1 == 3
    again = _round(with_sound, 0.5, data)
    assert np.array_equal(on.plugin, again.plugin)
    assert (on.samples, on.loss) == (asked.samples, asked.loss)


# -- rounds on single clips make a plug-in too keen on streams; with windows of the pack's negatives they do not


DEVICES, ROUNDS = 3, 4
PLAN = Plan(mode="supervised", optimizer="adamw", rate=1e-3, epochs=2, augment=True)


@pytest.fixture(scope="module")
def pack() -> Pack:
    """Of sixty sounds that are a keyword's and everything else's in equal parts half train and half judge."""
    return with_negatives(PACK, [("words", np.concatenate(stretches(60)))])


def _device(seed: int) -> DeviceData:
    """Single clips, two of them of no keyword."""
    some: Clips = clips(24, seed)
    kept = np.concatenate([np.flatnonzero(some.targets < 2), np.flatnonzero(some.targets == 2)[:2]])
    return DeviceData(some.chosen(kept), clips(6, seed + 50), None)


def _fleet(runtime: StepRuntime, plugin: Flat, share: float) -> Flat:
    """The plug-in after some rounds of which the server takes the devices' mean."""
    learn = LearnSettings(clips=1, judge=False, carried=share)
    fleet = [Trainer(runtime, "crnn-lite", _device(i), i, settings=learn) for i in range(DEVICES)]
    states = [device.first_state() for device in fleet]
    for number in range(1, ROUNDS + 1):
        done = [device.run(PLAN, number, plugin, state) for device, state in zip(fleet, states, strict=True)]
        plugin = np.stack([each.plugin for each in done]).mean(axis=0)
        states = [each.local for each in done]
    return plugin


@pytest.mark.slow
def test_rounds_on_clips_alone_make_a_plug_in_keener_and_on_the_packs_negatives_too_they_do_not(
    pack: Pack,
) -> None:
    start, runtime = taught(), StepRuntime(pack)
    keener, rested = (_fleet(runtime, start, share) for share in (0.0, 0.5))
    judged = load_negatives(pack, TOY_DETECT, 15)
    before, alone, both = (
        int(judged.accepts(runtime, "crnn-lite", plugin).sum()) for plugin in (start, keener, rested)
    )
    assert alone > before * 1.5
    assert both < before
    words = clips(60, 77)
    heard = runtime.logits("crnn-lite", rested, LogMel(pack.manifest.task).finish(words.energies)).argmax(axis=1)
    assert (heard == words.targets).mean() > 0.9
