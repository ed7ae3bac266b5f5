"""Packs: what is whole and sound loads, and nothing a stranger puts together does harm."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core import tiny_pack
from tests.core.tars import tar_of
from tests.core.tiny_pack import EVALUATE, STEP, TABLE

from auricle.errors import PackError
from auricle.packs import pack as pack_module
from auricle.packs.archive import untar
from auricle.packs.graph_interface import map_names, map_size, maps_sent, step_inputs, step_outputs
from auricle.packs.manifest import OrtTraining, Start, Tflite
from auricle.packs.pack import (
    FileEntry,
    Graph,
    Manifest,
    Pack,
    Task,
    archive_bytes,
    encode_manifest,
    load_pack,
    pack_bytes,
)
from auricle.packs.shipped import SHIPPED
from auricle.wire.plan import Bavd, Plan

COMPRESSED_WITH = (1, 5, 7)
"""Other versions of zstd give other bytes for the same pack, which its manifest's hash names."""
GRAPH = b"graph"
FILES = {EVALUATE: GRAPH, STEP: GRAPH}
EVALUATE_ENTRY, STEP_ENTRY = tiny_pack.graphs()


def _manifest(**changes: Any) -> Manifest:
    """A pack of one model, one evaluation graph and one step graph."""
    return tiny_pack.manifest(FILES, **{"start": {}, **changes})


def _pack(**changes: Any) -> Pack:
    return Pack(_manifest(**changes), {**FILES, "graphs/f.onnx": b""})


def _archive(*members: tuple[tarfile.TarInfo | str, bytes]) -> bytes:
    return zstd.compress(tar_of(*members))


WHOLE = (("manifest.json", encode_manifest(_manifest())), *FILES.items())


def _write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "some.tar.zst"
    path.write_bytes(data)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.usefixtures("packed_best")
def test_a_shipped_pack_loads_and_packs_to_its_own_bytes(name: str) -> None:
    pack = load_pack(name)

    shipped = Path(pack_module.__file__).parent / f"{name}.tar.zst"
    assert pack.manifest.name == name
    assert pack.identity == hashlib.sha256(encode_manifest(pack.manifest)).hexdigest()
    packed = pack_bytes(pack)
    assert dict(untar(packed, name)) == dict(untar(shipped.read_bytes(), name))
    assert packed == shipped.read_bytes() or zstd.zstd_version_info != COMPRESSED_WITH
    if name in ("home", "home-more", "gsc12-res"):
        assert set(pack.tables) == {"resnet-lite", "resnet-base"} and pack.plugin_table.size == 64_580 + 57 * (
            len(pack.labels) - 12
        )
        return
    assert {"crnn-base", "crnn-wide", "crnn-deep", "crnn-stacked", "crnn-lite"} <= set(pack.tables)
    assert pack.plugin_table.size == 26_572 + 65 * (len(pack.labels) - 12)


def test_the_label_lists_are_those_of_the_data_sets() -> None:
    assert [len(load_pack(name).labels) for name in SHIPPED] == [10, 12, 12, 35, 14, 14]
    assert load_pack("gsc12").labels[-2:] == ("_unknown_", "_silence_")


def test_a_pack_is_for_sound_at_16000_hz() -> None:
    with pytest.raises(PackError, match=r"is for sound at 8,000 Hz, and all sound is heard at 16,000 Hz"):
        _pack(task=msgspec.structs.replace(tiny_pack.TASK, sample_rate=8_000, clip_samples=8_000))


@pytest.mark.parametrize(("samples", "says"), [(7_998, "0.499875 s"), (64_004, "4.00025 s"), (8_000, ""), (64_000, "")])
def test_a_window_is_half_a_second_to_four(samples: int, says: str) -> None:
    task = msgspec.structs.replace(tiny_pack.TASK, clip_samples=samples)
    if not says:
        assert _pack(task=task).manifest.task.seconds == samples / 16_000
        return
    with pytest.raises(PackError, match=f"a window of {says}, which is not from 0.5 to 4 s"):
        _pack(task=task)


def test_a_pack_survives_both_its_forms(tmp_path: Path) -> None:
    pack = _pack()
    archive = _write(tmp_path, pack_bytes(pack))
    folder = tmp_path / "folder"
    (folder / "graphs").mkdir(parents=True)
    for path, content in WHOLE:
        (folder / path).write_bytes(content)
    for loaded in (load_pack(archive), load_pack(str(archive)), load_pack(folder)):
        assert loaded.identity == pack.identity
        assert loaded.files == FILES


def test_a_pack_is_copied_from_the_archive_that_it_came_from(tmp_path: Path) -> None:
    pack, path = _pack(), tmp_path / "pack.tar.zst"
    path.write_bytes(pack_bytes(pack) + bytes.fromhex("502a4d1800000000"))  # and an empty frame that zstd skips
    loaded = load_pack(path)
    assert archive_bytes(loaded) == path.read_bytes() != pack_bytes(pack)
    assert archive_bytes(pack) == pack_bytes(pack)
    for content in (pack_bytes(load_pack("digits")), path.read_bytes()[:-50]):
        path.write_bytes(content)
        assert archive_bytes(loaded) == pack_bytes(pack)
    path.unlink()
    assert archive_bytes(loaded) == pack_bytes(pack)


def test_other_words_keep_the_graphs_and_resize_the_classifier_only() -> None:
    pack = load_pack("gsc12")
    other = pack.with_labels(("on", "off", "dim"), "lamp")
    assert other.labels == ("on", "off", "dim")
    assert other.identity != pack.identity
    assert other.files == {graph.file: pack.files[graph.file] for graph in pack.manifest.graphs}
    assert not (other.manifest.start or other.manifest.ort_training or other.manifest.tflite)
    assert other.plugin_table.size == pack.plugin_table.size - 9 * 65
    assert [s.shape for s in other.plugin_table.specs[-2:]] == [(3, 64), (3,)]
    assert other.plugin_table.specs[:-2] == pack.plugin_table.specs[:-2]


def test_the_same_words_under_another_name_keep_everything() -> None:
    pack = load_pack("digits")
    other = pack.with_labels(pack.labels, "numbers")
    assert other.manifest == msgspec.structs.replace(pack.manifest, name="numbers")
    assert other.files == pack.files


@pytest.mark.parametrize("words", [(), ("on",), ("on", "on"), ("on", "off", "on")])
def test_a_task_needs_two_different_words(words: tuple[str, ...]) -> None:
    with pytest.raises(PackError, match="two different words"):
        load_pack("gsc12").with_labels(words)


def test_what_a_pack_does_not_have_is_said_with_a_hint() -> None:
    pack = load_pack("gsc12")
    with pytest.raises(PackError, match='did you mean "crnn-base"'):
        pack.table("crnn-bas")
    with pytest.raises(PackError, match="no mutual graph"):
        pack.graph("mutual", "crnn-base")
    with pytest.raises(PackError, match='did you mean "gsc12"'):
        load_pack("gcs12")


EMPTY = hashlib.sha256(b"").hexdigest()
TRAINED = Start(file="weights/lite.safetensors", data="speech", clips=1, speakers=1, accuracy=0.5, judged_clips=1)
ARTIFACTS = OrtTraining(training=EVALUATE, evaluation="ort/e", optimizers={}, checkpoint="ort/checkpoint", batch=16)


_changed = msgspec.structs.replace
UNFIT = (
    *(_changed(EVALUATE_ENTRY, **each) for each in ({"inputs": ("x",)}, {"outputs": ("y",)})),
    _changed(EVALUATE_ENTRY, inputs=EVALUATE_ENTRY.inputs * 2),
    *(_changed(STEP_ENTRY, **each) for each in ({"batch": None}, {"optimizer": None}, {"optimizer": "adamw"})),
    _changed(STEP_ENTRY, inputs=STEP_ENTRY.inputs[:-1]),
    _changed(STEP_ENTRY, outputs=STEP_ENTRY.outputs[:-1]),
    _changed(STEP_ENTRY, terms=("drift",)),
    _changed(STEP_ENTRY, noise={"x": (1 << 20,)}),
    _changed(STEP_ENTRY, noise={"x": (1,)}, inputs=(*STEP_ENTRY.inputs, "x")),
    _changed(STEP_ENTRY, kind="mutual", plugin="lite"),
)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format": 1}, "has format 1; this version of Auricle reads 2 to 4"),
        ({"plugin": "base"}, "names a plug-in base"),
        ({"task": Task(("yes", "yes"))}, "has a label twice"),
        ({"task": Task(("a", "b"))}, "is not one for 2 labels"),
        ({"architectures": {"lite": TABLE[:2]}}, "must end with head.weight"),
        ({"architectures": {"lite": TABLE * 2}}, "same tensor twice"),
        ({"architectures": {}}, "names a plug-in"),
        ({"files": ()}, "names a file or model that is not there"),
        ({"files": _manifest().files * 2}, "lists a file twice"),
        ({"graphs": (EVALUATE_ENTRY, _changed(STEP_ENTRY, file=EVALUATE))}, "share a file"),
        ({"files": (FileEntry(EVALUATE, 4, "0" * 64),)}, "is not the one its manifest names"),
        ({"files": (FileEntry(EVALUATE, len(GRAPH), "0" * 64),)}, "is not the one its manifest names"),
        ({"files": (FileEntry("graphs/g.onnx", 0, EMPTY),)}, "lacks its file graphs/g.onnx"),
        ({"files": (*_manifest().files, FileEntry("graphs/f.onnx", 0, EMPTY))}, "graphs/f.onnx, which nothing"),
        ({"start": {"lite": TRAINED}}, "refers to weights/lite.safetensors"),
        ({"start": {"base": _changed(TRAINED, file=EVALUATE)}}, "refers to base"),
        ({"tflite": (Tflite(model="lite", precision="int8", file="x.tflite", buffers=()),)}, "refers to x.tflite"),
        ({"ort_training": {"lite": ARTIFACTS}}, "refers to ort/checkpoint"),
        ({"graphs": (_changed(EVALUATE_ENTRY, model="base"),)}, "names a file or model"),
        *(({"graphs": (entry,)}, "lacks an input or output") for entry in UNFIT),
    ],
)
def test_an_unsound_manifest_is_refused(changes: dict[str, Any], sentence: str) -> None:
    _pack()
    with pytest.raises(PackError, match=sentence):
        _pack(**changes)


@pytest.mark.parametrize(
    "label",
    [
        *("../../pwn", "..", "/x", "a/b", "a\\b", "a.b", "a\0b", "a\x1b[2Jb", "a\nb", "a\u202eb", "a\u200bb"),
        *("<b>x</b>", " a", "a ", "-a", "a'", "_a", "_other_", "\u200da", "\u0301a", "fu\u0308r", "😀", "[red]"),
        "a" * 65,
    ],
)
def test_a_label_of_another_form_is_refused_where_a_pack_is_read(label: str) -> None:
    with pytest.raises(PackError, match="is not a valid label: write") as caught:
        _pack(task=Task(("yes", label)))
    assert str(caught.value).isprintable()
    with pytest.raises(PackError, match="is not a valid label"):
        load_pack("gsc12").with_labels(("yes", label))


@pytest.mark.parametrize(
    "label",
    [
        *("für", "hey jarvis", "l'eau", "o’clock", "twenty-two", "on_2", "7", "_unknown_", "_silence_", "a" * 64),
        *("مطبخ", "می\u200cخواهم", "厨房", "รถ", "हिन्दी"),
    ],
)
def test_words_of_any_script_are_labels(label: str) -> None:
    labels = (label, "yes")
    assert load_pack("gsc12").with_labels(labels).labels == labels


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "../up", "graphs/../../up", "graphs//x", "graphs/", "", ".hidden", "a\\b", "a\n", "a\0b"),
        *("Ä", "a/b/c/d/e", "x" * 101),
    ],
)
def test_a_path_that_leaves_the_pack_is_refused(tmp_path: Path, path: str) -> None:
    content = msgspec.to_builtins(_manifest())
    content["files"] = [{"path": path, "bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()}]
    with pytest.raises(PackError, match=r"is not valid|which is not a plain file"):
        load_pack(_write(tmp_path, _archive(("manifest.json", msgspec.json.encode(content)), (path or "x", b""))))


def _claiming(size: int) -> bytes:
    """A tar whose last header claims a size that its data has not."""
    info = tarfile.TarInfo(EVALUATE)
    info.size = size
    return zstd.compress(tar_of(WHOLE[0])[:-10240] + info.tobuf(tarfile.GNU_FORMAT) + b"x" * 512)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "has no manifest.json|not a pack"),
        (b"not zstd", "not a pack"),
        (zstd.compress(b"not tar"), "not a pack"),
        (b"\x28\xb5\x2f\xfd\xe0" + (1 << 62).to_bytes(8, "little") + b"\x01\0\0", "not a pack"),  # claims 2^62 bytes
        (zstd.compress(b""), "not a pack|no manifest"),
        (_archive(*WHOLE)[:-20], "not a pack|lacks|no manifest"),
        (_archive(*WHOLE) + b"trailing", "not a pack"),
        (_archive(WHOLE[1]), "no manifest.json"),
        (_archive(WHOLE[0]), "lacks its file"),
        (_archive(*WHOLE, WHOLE[1]), f"'{EVALUATE}' twice"),
        (_archive(WHOLE[0], *WHOLE), "'manifest.json' twice"),
        (_claiming(1 << 34), "not a plain file|not a pack"),
        (_claiming(600), "not a pack|is not the one"),
        *((_archive(("manifest.json", data)), "not valid") for data in (b"{}", b'{"a":' * 100_000, b"\xff\xfe")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_hostile_archive_is_refused(tmp_path: Path, data: bytes, sentence: str) -> None:
    with pytest.raises(PackError, match=sentence):
        load_pack(_write(tmp_path, data))


def test_a_huge_file_and_what_is_no_source_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for source in ("", "no\0where", "x" * 5000, "/no/where"):
        with pytest.raises(PackError):
            load_pack(source)
    path = tmp_path / "manifest.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    for huge, limit in ((path, 32), (tmp_path, 4)):
        with pytest.raises(PackError, match=f"more than {limit} MiB"):
            load_pack(huge)


_TAR = tar_of(*WHOLE)
_ZST = zstd.compress(_TAR, options={zstd.CompressionParameter.checksum_flag: 1})
"""With a checksum of what it holds: without one a changed byte can give a file another name wherever it stands."""


@settings(max_examples=400)
@given(place=st.integers(0, len(_TAR) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_of_the_tar_is_refused_or_makes_no_difference(place: int, byte: int) -> None:
    """Beyond zstd's own checks: whatever the archive says, the files are those the manifest hashes."""
    changed = bytearray(_TAR)
    changed[place] = byte
    try:
        pack = pack_module._from_files(untar(zstd.compress(bytes(changed)), "it"), "it")
    except PackError:
        return
    assert pack.files == FILES


@settings(max_examples=400)
@given(place=st.integers(0, len(_ZST) - 1), byte=st.integers(0, 255), cut=st.integers(0, len(_ZST)))
def test_a_changed_or_cut_archive_is_refused_or_makes_no_difference(place: int, byte: int, cut: int) -> None:
    changed = bytearray(_ZST)
    changed[place] = byte
    for data in (bytes(changed), _ZST[:cut]):
        try:
            pack = pack_module._from_files(untar(data, "it"), "it")
        except PackError:
            continue
        assert pack.files == FILES


@settings(max_examples=200)
@given(
    header=st.binary(min_size=512, max_size=512), kind=st.sampled_from(b"0123457xgLKSX\0"), size=st.integers(0, 2000)
)
def test_no_tar_header_crashes_the_reader(header: bytes, kind: int, size: int) -> None:
    """Random headers with a right checksum: extended headers, sparse maps, long names."""
    raw = bytearray(header)
    raw[156] = kind
    raw[124:136] = b"%011o\0" % size
    raw[257:265] = b"ustar\x0000"
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw)
    with pytest.raises(PackError):
        pack_module._from_files(untar(zstd.compress(bytes(raw) + header * 4 + bytes(1024)), "it"), "it")


def test_state_and_noise_of_a_graph_keep_their_places_over_the_manifest() -> None:
    noise, state = ({f"model.{kind}.b": (2,), f"model.{kind}.a": (3,)} for kind in ("noise", "bavd"))
    graph = _changed(STEP_ENTRY, noise=noise, state=state)
    read = msgspec.json.decode(msgspec.json.encode(graph, order="sorted"), type=Graph)
    assert step_inputs(read) == step_inputs(graph)
    assert step_outputs(read) == step_outputs(graph)
    assert step_inputs(graph)[-4:] == ["model.noise.a", "model.noise.b", "model.bavd.a", "model.bavd.b"]


def test_maps_are_those_of_the_plug_in_whichever_graph_trains_it() -> None:
    shapes = {"b.1": (2, 3), "a": (4,), "seen": (1,), "loss": (1,)}
    state = {f"model.bavd.{name}": shape for name, shape in shapes.items()}
    alone = _changed(STEP_ENTRY, state=state)
    beside = {name.replace("model", "plugin"): shape for name, shape in state.items()}
    mutual = msgspec.structs.replace(alone, kind="mutual", model="base", state=beside)
    bare = msgspec.structs.replace(alone, state={})

    assert map_names(alone, "model") == ["model.bavd.a", "model.bavd.b.1"]
    assert map_size("lite", [bare, alone]) == map_size("lite", [bare, mutual]) == 4 + 6
    assert map_size("base", [alone]) == map_size("lite", [bare]) == 0
    asked = Plan(bavd=Bavd(maps=True))
    assert [maps_sent(plan, "lite", [alone]) for plan in (asked, Plan(bavd=Bavd()), Plan())] == [10, 0, 0]


def test_what_a_device_holds_of_a_pack_stays_in_its_archive(tmp_path: Path) -> None:
    whole, path = load_pack("gsc12"), tmp_path / "pack.tar.zst"
    path.write_bytes(pack_bytes(whole))
    held = load_pack(path)
    held.hold_only((held.manifest.plugin,))
    path.rename(tmp_path / "other")
    assert {graph.model for graph in held.manifest.graphs if graph.file in held.files} == {held.manifest.plugin}
    assert all(held.files[name] == whole.files[name] for name in held.files)
    assert [n.shape for n in held.negatives()] == [n.shape for n in whole.negatives()]


def test_an_archive_that_becomes_another_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "pack.tar.zst"
    path.write_bytes(pack_bytes(load_pack("gsc12")))
    held = load_pack(path)
    held.hold_only((held.manifest.plugin,))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    with path.open("r+b") as file:
        file.write(data)
    with pytest.raises(PackError, match="start again"):
        [held.files[name] for name in held.files]
