"""What a pack says of listening: read, refused, left out where the words change; format 2 stays byte for byte."""

from __future__ import annotations

from inspect import signature
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import UNSET
from tests.core.tiny_pack import MELS, files, pack
from typer.models import OptionInfo

from auricle.errors import PackError
from auricle.packs.listening import LARGEST_NEGATIVES, NEGATIVES_FILE, write_negatives
from auricle.packs.manifest import FORMAT, LISTENING_FORMAT, HeardAt, Hearing, Listening, Negatives
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.shipped import DEFAULT_PACK, SHIPPED
from auricle_cloud.commands.coordinator_settings import CoordinatorSettings
from auricle_edge.commands.evaluate_commands import evaluate
from auricle_edge.settings import EdgeSettings

FLOOR = 1e-6
CURVE = (HeardAt(false_accepts_per_hour=5.0, hits={"noise": 0.5}),)
HEARD = Hearing(data="people", words=10, hours=1.5, curve=CURVE)


def with_negatives() -> tuple[Pack, list[tuple[str, np.ndarray[Any, Any]]]]:
    rng = np.random.default_rng(0)
    stretches = [("noise", rng.gamma(0.3, size=(7, MELS))), ("speech", rng.gamma(0.3, size=(4, MELS)) * 1e-5)]
    floats = [(kind, energies.astype(np.float32)) for kind, energies in stretches]
    negatives, content = write_negatives(floats, FLOOR)
    return pack({NEGATIVES_FILE: content}, negatives=negatives), floats


def test_a_pack_that_says_nothing_of_listening_is_format_2_and_its_manifest_has_no_such_field() -> None:
    plain = pack()
    assert plain.manifest.format == FORMAT == 2
    assert b"listening" not in plain.manifest_bytes and b"negatives" not in plain.manifest_bytes
    assert plain.listening is None and plain.negatives() == []


def test_listening_travels_with_the_pack_and_makes_it_format_3(tmp_path: Any) -> None:
    said = Listening(thresholds={"yes": 0.7}, wake=("yes",), commands={"no": 0.5}, window=2.5)
    made = pack(listening=said)
    path = tmp_path / "tiny.tar.zst"
    path.write_bytes(pack_bytes(made))
    found = load_pack(path)
    assert found.manifest.format == LISTENING_FORMAT and found.listening == said
    assert found.identity == made.identity


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"hearing": HEARD}, b'"hearing"'),
        ({"attribution": ("somebody, CC BY 4.0",)}, b'"attribution"'),
        ({"speech": "ab" * 32}, b'"speech": "abab'),
    ],
)
def test_only_a_start_that_says_more_is_format_3_and_has_such_a_field(said: dict[str, Any], field: bytes) -> None:
    plain = pack()
    start = msgspec.structs.replace(plain.manifest.start["lite"], **said)
    made = pack(start={"lite": start})
    assert made.manifest.format == LISTENING_FORMAT and made.manifest.start["lite"] == start
    assert field in made.manifest_bytes and field.partition(b":")[0] not in plain.manifest_bytes
    assert plain.manifest.format == FORMAT


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (Listening(thresholds={"maybe": 0.5}), 'listens for "maybe"'),
        (Listening(wake=("maybe",)), 'listens for "maybe"'),
        (Listening(commands={"_unknown_": 0.5}), 'listens for "_unknown_"'),
        (Listening(wake=("yes", "yes")), "a wake word twice"),
        (Listening(wake=("yes", "no", "up")), "no command"),
        (Listening(second_stage="lite"), "plug-in"),
        (Listening(second_stage="base"), "base as second stage"),
    ],
)
def test_words_that_do_not_fit_are_refused(said: Listening, wrong: str) -> None:
    with pytest.raises(PackError, match=wrong):
        pack(listening=said)


def test_negatives_come_back_within_half_a_step_of_their_logarithm() -> None:
    made, stretches = with_negatives()
    assert made.manifest.format == LISTENING_FORMAT
    assert isinstance(made.manifest.negatives, Negatives)
    step = made.manifest.negatives.step
    for (_, energies), found in zip(stretches, made.negatives(), strict=True):
        assert found.shape == energies.shape and found.dtype == np.float32
        assert np.abs(np.log(found + FLOOR) - np.log(energies + FLOOR)).max() <= step / 2 + 1e-3


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"frames": (7, 5)}, "length"),
        ({"kinds": ("noise",)}, "one kind for each stretch"),
        ({"offset": float("inf")}, "not finite|leaves the range"),
        ({"step": 1e6}, "leaves the range"),
    ],
)
def test_negatives_that_are_not_what_the_manifest_says_are_refused(changes: dict[str, Any], wrong: str) -> None:
    made, _ = with_negatives()
    negatives = msgspec.structs.replace(made.manifest.negatives, **changes)
    with pytest.raises(PackError, match=wrong):
        pack({NEGATIVES_FILE: made.files[NEGATIVES_FILE]}, negatives=negatives)


def test_too_many_negatives_are_refused() -> None:
    too_many = np.ones((LARGEST_NEGATIVES // MELS + 1, MELS), np.float32)
    with pytest.raises(PackError, match="carries at most"):
        write_negatives([("noise", too_many)], FLOOR)


def test_a_format_2_manifest_with_parts_of_format_3_is_refused() -> None:
    made, _ = with_negatives()
    older = msgspec.structs.replace(made.manifest, format=FORMAT)
    with pytest.raises(PackError, match="parts of a newer one"):
        Pack(older, made.files, b"{}")


def test_other_words_leave_thresholds_and_negatives_behind() -> None:
    made, _ = with_negatives()
    other = made.with_labels(("left", "right"))
    assert other.listening is None and other.negatives() == [] and other.manifest.format == FORMAT
    assert set(other.files) < {*files()}


def test_device_and_coordinator_agree() -> None:
    option = signature(evaluate).parameters["pack"].default
    default = option.default if isinstance(option, OptionInfo) else option
    assert [default, EdgeSettings(state="x").pack, CoordinatorSettings().pack] == [DEFAULT_PACK] * 3
    assert DEFAULT_PACK in SHIPPED


def test_it_listens_for_a_wake_word_with_a_trained_model() -> None:
    pack = load_pack(DEFAULT_PACK)
    assert pack.listening is not None and pack.listening.wake == ("computer", "jarvis")
    assert pack.manifest.plugin in pack.manifest.start


def test_a_byte_stands_for_one_energy_wherever_it_is() -> None:
    pack = load_pack("home")
    negatives, frontend = pack.manifest.negatives, pack.manifest.task.frontend
    assert negatives is not UNSET
    numbers = np.frombuffer(pack.files[negatives.file], np.int8).reshape(-1, frontend.mels).astype(np.float32)
    logs = np.float32(negatives.offset) + np.float32(negatives.step) * numbers
    energies = np.maximum(np.exp(logs) - np.float32(frontend.floor), 0)
    assert np.array_equal(np.concatenate(pack.negatives()), energies)
    one = pack.stretches[0]
    assert len(one) == len(one[:]) == negatives.frames[0] and np.array_equal(one.part(slice(9))[2:], one[2:9])
    pack.forget_stretches()
    assert pack.stretches[0] is not one
    assert np.array_equal(pack.stretches[0].numbers, one.numbers)
