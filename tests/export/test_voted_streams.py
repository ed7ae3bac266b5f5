"""Streams that a plug-in and its vote hear together, each through its own front-end."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from auricle.errors import DataError
from auricle.hearing.rule import Rule
from auricle.hearing.scenes import Scene
from auricle.hearing.utterances import Stretch
from auricle.hearing.vote import add_vote
from auricle.packs.manifest import Task
from auricle.packs.start import start_weights
from auricle.packs.vote import with_vote
from auricle.speech.features import LogMel, stream_energies
from auricle_export.pretrain.streams import Streams, streams_of
from auricle_export.pretrain.voted_streams import StreamVoter, as_heard_by, voter_of

from .frozen_toy import LABELS, toy_network_pack
from .test_vote_network import PLAIN, trained_head

HEAD = toy_network_pack()
OWN = LogMel(Task(LABELS))
RULE = Rule(hop=0.1)
VOTER = voter_of(HEAD, HEAD.plugin_table.initial(2), 0.5)


def recognise(features: np.ndarray) -> np.ndarray:
    """A plug-in: softmax of some of its features."""
    powers = np.exp(features[:, 3, : len(LABELS)])
    return (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)


def streams(seconds: float = 3.03) -> Streams:
    rng = np.random.default_rng(4)
    samples = (rng.normal(0, 3_000, round(16_000 * seconds))).astype(np.int16)
    return streams_of([Scene(samples, stretches=(Stretch("noise", 0, len(samples)),))], LABELS, OWN, RULE)


def test_at_each_hop_both_windows_end_where_a_device_ends_them() -> None:
    """Hop h ends at frame 10 (h + 1); the vote's window of 50 frames at the last multiple of 4 before it."""
    own, task = streams(), HEAD.manifest.task
    alone, together = own.posteriors(recognise)[0], VOTER.beside(own).posteriors(recognise)[0]
    assert alone.shape == together.shape and not together[:9].any() and not alone[:9].any()
    energies = stream_energies(task, own.scenes[0].samples)
    for hop in (9, 10, 13, 29):
        end = 10 * (hop + 1) // 4 * 4
        vote = VOTER.recognise(VOTER.frontend.finish(energies[None, end - task.frames : end]))
        np.testing.assert_allclose(together[hop], add_vote(alone[hop : hop + 1], vote, 0.5)[0], atol=1e-5)


def test_before_the_vote_has_a_whole_window_nothing_counts() -> None:

    short = LogMel(msgspec.structs.replace(Task(LABELS), frames=20, clip_samples=3_440))
    own = replace(streams(), frontend=short, energies=(stream_energies(short.task, streams().scenes[0].samples),))
    alone, together = own.posteriors(recognise)[0], VOTER.beside(own).posteriors(recognise)[0]
    assert np.flatnonzero(alone.any(axis=1))[0] == 1  # 20 frames
    assert np.flatnonzero(together.any(axis=1))[0] == 5  # 60 frames hold a window that ends at the 52nd or later


def test_of_scenes_without_samples_the_vote_hears_the_energies_that_are_given() -> None:
    own = streams()
    energies = stream_energies(HEAD.manifest.task, own.scenes[0].samples)
    empty = replace(own, scenes=(replace(own.scenes[0], samples=np.zeros(0, np.int16)),))
    due, made = VOTER.beside(own).posteriors(recognise), VOTER.beside(empty, [energies]).posteriors(recognise)
    assert np.array_equal(due[0], made[0])


def test_another_rule_and_other_sounds_keep_the_vote() -> None:
    both = VOTER.beside(streams())
    patient = replace(both, rule=replace(RULE, patience=3))
    assert np.array_equal(patient.posteriors(recognise)[0], both.posteriors(recognise)[0])
    sound = np.random.default_rng(1).normal(0, 0.1, 8_000).astype(np.float32)
    over = both.over([sound], (both.longest, 50))
    assert both.longest == 100
    (rows,) = over.posteriors(recognise)
    assert len(rows) == (100 + 50 + 50) // 10 and rows[9:].any(axis=1).all()
    (alone,) = streams().over([sound], (100, 50)).posteriors(recognise)
    assert np.abs(rows - alone).max() > 0.01


def test_a_pack_is_heard_with_the_vote_that_it_has() -> None:
    own, head = streams(), trained_head()
    assert as_heard_by(head, own) is own
    voter = voter_of(head, start_weights(head, head.manifest.plugin), 0.4)
    joined = as_heard_by(with_vote(PLAIN, head, 0.4), own)
    assert np.array_equal(joined.posteriors(recognise)[0], voter.beside(own).posteriors(recognise)[0])


def test_other_labels_are_refused() -> None:
    with pytest.raises(DataError, match="the same labels in the same order"):
        VOTER.beside(replace(streams(), labels=LABELS[::-1]))


def test_a_share_of_nearly_nothing_is_the_plug_in() -> None:
    faint = StreamVoter(VOTER.frontend, VOTER.recognise, 0.0)
    alone, both = streams().posteriors(recognise)[0], faint.beside(streams()).posteriors(recognise)[0]
    np.testing.assert_allclose(both, alone, atol=1e-5)
