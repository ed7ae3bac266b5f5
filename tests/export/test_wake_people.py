"""What packs heard of people: which rows a page shows, and posteriors of a pack with a vote where it is judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bench.own_wake_word import voted_posteriors
from msgspec import structs

from auricle.checks.onnx_network import frontend_of
from auricle.hearing.rule import Rule
from auricle.hearing.utterances import Scene
from auricle.hearing.vote import voted
from auricle.packs.manifest import Start
from auricle.packs.pack import Pack, load_pack
from auricle.packs.start import start_file, start_weights
from auricle.packs.vote import with_vote
from auricle.speech.features import LogMel, stream_energies
from auricle_export.packs.start_weights import with_starts
from auricle_export.pretrain.live import recogniser_of
from auricle_export.pretrain.streams import Streams
from auricle_export.wakeword.model import starting_pack
from auricle_export.wakeword.page import wake_page
from auricle_export.wakeword.people import PeopleHearing, like, networks_of, people_record
from auricle_export.wakeword.report import Judges
from auricle_export.wakeword.voices_sound import SourceVoices

from .frozen_toy import LABELS
from .test_vote_network import HEAD, JOINED, PLAIN
from .test_wake_page import REPORT, Document

KOKORO = PeopleHearing(
    phrase="computer", trained_on=0, voices=("kokoro",), takes=329, heard=0.56, hours=6.74, false_accepts=2
)
OVER = structs.replace(KOKORO, frontend="toy")
VOTE = structs.replace(KOKORO, vote="toy")
PIPER = structs.replace(KOKORO, voices=("piper", "kokoro"))


@pytest.mark.parametrize(
    ("voices", "frontend", "vote", "due"),
    [
        (("kokoro",), "", "", [KOKORO]),
        (("kokoro",), "toy", "", [OVER]),
        (("kokoro",), "", "toy", [VOTE]),
        (("kokoro", "piper"), "", "", [PIPER]),
        ((), "", "", [OVER, KOKORO, VOTE, PIPER]),
    ],
)
def test_rows_of_packs_that_were_made_so_are_shown_else_all(
    voices: tuple[str, ...], frontend: str, vote: str, due: list[PeopleHearing]
) -> None:
    assert list(like([OVER, KOKORO, VOTE, PIPER], voices, frontend, vote)) == due


def test_a_pack_names_the_networks_that_it_hears_through() -> None:
    assert networks_of(PLAIN.manifest) == ("", "")
    assert networks_of(HEAD.manifest) == ("toy", "")
    assert networks_of(JOINED.manifest) == ("", "toy")


def test_a_sentence_says_what_a_pack_hears_through() -> None:
    assert 'espeak-ng, a pack over the network toy for "computer"' in OVER.sentence
    assert 'a pack with a vote of the network toy for "computer"' in VOTE.sentence
    assert "56 % (50 to 61 %) of 329 takes by people" in KOKORO.sentence


def test_a_page_of_a_pack_of_kokoros_voices_shows_what_such_a_pack_heard() -> None:
    natural = SourceVoices("kokoro", "natural voices", "Apache-2.0", 40, 160)
    espeak = SourceVoices("espeak-ng", "formant voices", "GPL-3.0", 97, 4_051)
    training = replace(REPORT.training, people=0, recordings=0, sources=(natural, espeak))
    report = replace(REPORT, judges=Judges(voices=29), training=training)
    text = Document(wake_page(report)).text

    assert report.people == (KOKORO,) and KOKORO.sentence in text
    assert not any(row.sentence in text for row in people_record() if row != KOKORO)
    assert "29 synthetic voices that were not trained on said it" in text and "29 people" not in text
    assert "in no recording of people" in text
    assert replace(report, frontend="toy").people == people_record()


def _trained(pack: Pack) -> Pack:
    """The pack with drawn weights to start from."""
    model, table = pack.manifest.plugin, pack.plugin_table
    start = Start(file=f"weights/{model}.safetensors", data="noise", clips=1, speakers=1, accuracy=0.5, judged_clips=1)
    return with_starts(pack, {model: start}, {**pack.files, start.file: start_file(table, table.initial(3))})


def test_a_pack_with_a_vote_is_judged_by_both() -> None:
    plain = _trained(starting_pack(load_pack("gsc12-res"), LABELS, "plain", 1.0))
    both = with_vote(plain, HEAD, 0.4)
    sound = np.random.default_rng(0).normal(0, 0.1, 16_000 * 3).astype(np.float32)

    def make(frontend: LogMel) -> Streams:
        energies = (stream_energies(frontend.task, sound),)
        return Streams((Scene(np.zeros(len(sound), np.int16)),), energies, LABELS, frontend, Rule(hop=0.16))

    voter = both.voter
    assert voter is not None
    one, two = (
        make(frontend_of(pack)).posteriors(
            recogniser_of(pack.manifest.plugin, pack, start_weights(pack, pack.manifest.plugin))
        )[0]
        for pack in (plain, voter)
    )
    made = voted_posteriors(both, make(frontend_of(both)), make)[0]
    full = two.any(axis=1)

    assert full.any() and not full.all() and len(one) == len(two)
    np.testing.assert_array_equal(made[full], voted(one, two, 0.4)[full])
    np.testing.assert_array_equal(made[~full], one[~full])
    np.testing.assert_array_equal(voted_posteriors(plain, make(frontend_of(plain)), make)[0], one)
