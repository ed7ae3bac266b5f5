"""A head over a frozen network as the vote of a pack that sees log-mels: joined, told, and run by every runtime."""

from __future__ import annotations

import io

import msgspec
import numpy as np
import pytest
from rich.console import Console
from tests.core import tiny_pack

from auricle.checks.pack_checks import require_sound
from auricle.errors import PackError
from auricle.packs.manifest import NETWORK_FORMAT, Start
from auricle.packs.pack import Pack
from auricle.packs.start import start_file, start_weights
from auricle.packs.vote import with_vote
from auricle_export.packs.diff import pack_differences
from auricle_export.packs.facts import describe_pack, print_facts
from auricle_export.packs.start_weights import with_starts
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes import StepRuntime, frontend_of, recogniser

from .frozen_toy import LABELS, MELS, SIZE, toy_network_pack

PLAIN = tiny_pack.pack(task=msgspec.structs.replace(tiny_pack.TASK, labels=LABELS))


def trained_head() -> Pack:
    """The toy head with weights to start from."""
    head, file = toy_network_pack(), "weights/head.safetensors"
    table = head.plugin_table
    start = Start(file=file, data="noise", clips=1, speakers=1, accuracy=0.5, judged_clips=1)
    content = start_file(table, table.initial(3))
    return with_starts(head, {head.manifest.plugin: start}, {**head.files, file: content})


HEAD = trained_head()
JOINED = with_vote(PLAIN, HEAD, 0.4)


def test_it_is_sound_and_its_vote_is_the_head() -> None:
    require_sound(JOINED)
    voter = JOINED.voter
    assert voter is not None and JOINED.manifest.format == voter.manifest.format == NETWORK_FORMAT
    assert voter.manifest.task.input_shape == HEAD.manifest.task.input_shape == (10, SIZE)
    require_sound(voter)


@pytest.mark.parametrize("runtime", [StepRuntime, NativeRuntime])
def test_a_runtime_runs_it_as_it_runs_the_head(runtime: type[StepRuntime] | type[NativeRuntime]) -> None:
    energies = np.random.default_rng(5).lognormal(-6, 2, (3, 50, MELS)).astype(np.float32)
    heard = []
    for pack in (HEAD, JOINED.voter):
        assert pack is not None
        model = pack.manifest.plugin
        made = runtime(pack)
        heard.append(recogniser(made, model, start_weights(pack, model))(frontend_of(made).finish(energies)))
    assert heard[0].shape == (3, len(LABELS)) and np.array_equal(heard[0], heard[1])


def test_inspect_and_diff_name_it() -> None:
    facts = describe_pack(JOINED)
    assert facts.vote is not None and facts.vote.network is not None and facts.network is None
    assert (facts.vote.model, facts.vote.share, facts.vote.network.name) == (HEAD.manifest.plugin, 0.4, "toy")
    assert facts.vote.weights == HEAD.plugin_table.size and list(facts.models) == ["lite"]
    text = io.StringIO()
    print_facts(facts, Console(file=text, width=400))
    line = next(line for line in text.getvalue().splitlines() if line.startswith("vote: "))
    assert "a share of 0.4, window 0.5 s; it hears through the frozen network toy, " in line
    changed = {d.name: (d.a, d.b) for d in pack_differences(JOINED, with_vote(PLAIN, HEAD, 0.5))}
    assert changed == {"share": (0.4, 0.5)}
    parts = {d.part for d in pack_differences(PLAIN, JOINED)}
    assert {"vote", "model", "graph", "weights", "file"} <= parts


def test_a_pack_with_a_network_of_its_own_takes_none() -> None:
    with pytest.raises(PackError, match="a vote and a network in its own front-end"):
        with_vote(HEAD, tiny_pack.pack(task=PLAIN.manifest.task), 0.5)
