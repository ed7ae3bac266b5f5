"""The pack: everything a board needs to train and run a task, as plain files behind one manifest.

A pack is a directory or a deterministic `.tar.zst` of it, named by the SHA-256 of `manifest.json`. Graphs are ordinary
ONNX; every file is checked against the manifest before it is used. A signature in `manifest.sig` says who vouches.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import PackError, WireError, nearest, refuse_misfits, refuse_misfits_of
from auricle.packs.archive import LeftFiles, PackedFiles, open_archive, read_file, read_inside, tar_bytes, untar
from auricle.packs.foreign_models import foreign_model
from auricle.packs.frontend import Frontend
from auricle.packs.graph_interface import FRONTENDS, OTHER_WORDS, PARTS, ROLES, SLOTS, Graph
from auricle.packs.interfaces import DOCUMENTS, check_interfaces
from auricle.packs.listening import Stretch, read_negatives
from auricle.packs.manifest import (
    FORMAT,
    LARGEST_MANIFEST,
    LARGEST_PACK,
    MANIFEST_FILE,
    READABLE,
    FileEntry,
    Listening,
    Manifest,
    Task,
    decode_manifest,
    encode_manifest,
    refuse_format,
)
from auricle.packs.shipped import SHIPPED
from auricle.packs.signature import (
    LARGEST_SIGNATURE,
    SIGNATURE_FILE,
    PackSignature,
    decode_signature,
    encode_signature,
)
from auricle.packs.voter import voter_manifest, without_vote
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import TensorTable

__all__ = [
    "FORMAT",
    "LARGEST_PACK",
    "PARTS",
    "ROLES",
    "SLOTS",
    "FileEntry",
    "Frontend",
    "Graph",
    "Manifest",
    "Pack",
    "Task",
    "archive_bytes",
    "encode_manifest",
    "load_pack",
    "pack_bytes",
]


@refuse_misfits_of
class Pack:
    """A checked pack in memory.

    Parameters
    ----------
    manifest
        Its manifest.
    files
        Content of every file the manifest lists.
    manifest_bytes
        The `manifest.json` it was read from; without, its canonical encoding.
    signature
        Who vouches for it.

    Raises
    ------
    PackError
        A file is missing, of another length or another hash; the format is of another version; a table is unsound;
        the signature is not one over this manifest.
    """

    def __init__(
        self,
        manifest: Manifest,
        files: Mapping[str, bytes],
        manifest_bytes: bytes | None = None,
        signature: PackSignature | None = None,
    ) -> None:
        if manifest_bytes is None and manifest.format in READABLE:
            manifest = msgspec.structs.replace(manifest, format=manifest.needed_format)
        refuse_format(manifest.format, "This pack")
        if manifest.format < manifest.needed_format:
            raise PackError(f"The pack {manifest.name} has format {manifest.format} and parts of a newer one.")
        for entry in manifest.files:
            if entry.path not in files:
                raise PackError(f"The pack {manifest.name} lacks its file {entry.path}.")
            if _facts(files, entry.path) != (entry.bytes, entry.sha256):
                raise PackError(f"The file {entry.path} of the pack {manifest.name} is not the one its manifest names.")
        paths = [entry.path for entry in manifest.files]
        if len(set(paths)) != len(paths) or {MANIFEST_FILE, SIGNATURE_FILE} & set(paths):
            raise PackError(f"The pack {manifest.name} lists a file twice, or its own manifest or signature.")
        self.manifest = manifest
        packed = files if isinstance(files, PackedFiles) else PackedFiles((path, files[path]) for path in paths)
        self.files = packed.only(paths)
        self.manifest_bytes = encode_manifest(manifest) if manifest_bytes is None else manifest_bytes
        self.identity = hashlib.sha256(self.manifest_bytes).hexdigest()
        if signature is not None and not signature.vouches(self.manifest_bytes):
            raise PackError(f"The signature of the pack {manifest.name} is not one over its manifest: do not use it.")
        self.signature = signature
        self.archive: Path | None = None
        """The `.tar.zst` that it was read from."""
        try:
            tables = {name: TensorTable(specs) for name, specs in manifest.architectures.items()}
        except WireError as error:
            raise PackError(f"The pack {manifest.name}: {error}") from error
        check_interfaces(manifest, tables, self.files)
        vote = None if manifest.vote is UNSET else manifest.vote.model
        self.tables = {name: table for name, table in tables.items() if name != vote}
        """By model, without the vote's, which `voter` has."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The words, in the classifier's order."""
        return self.manifest.task.labels

    @property
    def listening(self) -> Listening | None:
        """How a device listens with it, where it says so."""
        return None if self.manifest.listening is UNSET else self.manifest.listening

    @cached_property
    def voter(self) -> Pack | None:
        """Its vote as a pack of its own: the same words, the vote's model as plug-in; None where it has no vote."""
        manifest = voter_manifest(self.manifest)
        return None if manifest is None else Pack(manifest, self.files)

    def negatives(self) -> list[NDArray[np.float32]]:
        """Mel energies (frames, mels) of each stretch of sound without keywords that it carries; may be none."""
        return [stretch[:] for stretch in self.stretches]

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        """The same, unpacked once, a byte a number until frames of them are taken."""
        return tuple(read_negatives(self.manifest, self.files))

    def forget_stretches(self) -> None:
        """Give up what `stretches` has unpacked, until somebody asks for it again."""
        self.__dict__.pop("stretches", None)

    @property
    def plugin_table(self) -> TensorTable:
        """Tensor table of the plug-in: the layout of what travels."""
        return self.tables[self.manifest.plugin]

    def table(self, architecture: str) -> TensorTable:
        """Tensor table of a model; PackError with a hint when none has that name."""
        if architecture not in self.tables:
            raise PackError(
                f'The pack {self.manifest.name} has no model "{architecture}": {nearest(architecture, self.tables)}'
            )
        return self.tables[architecture]

    def hold_only(self, models: Collection[str]) -> None:
        """Forget the graphs and trained weights of other models, for good: a device needs its own and the plug-in.

        Those of a vote stay.

        What is left stays in the archive that the pack came from, and is read there when it is asked for.

        Raises
        ------
        PackError
            The archive cannot be read any more.
        """
        manifest = self.manifest
        models = {*models} if manifest.vote is UNSET else {*models, manifest.vote.model}
        other = {graph.file for graph in manifest.graphs if graph.kind not in FRONTENDS and graph.model not in models}
        other |= {start.file for model, start in manifest.start.items() if model not in models}
        files = self.files if self.archive is None else LeftFiles(self.files, self.archive)
        self.files = files.only([name for name in files if name not in other])

    def graph(
        self, kind: str, model: str, optimizer: str | None = None, terms: Sequence[str] = (), batch: int | None = None
    ) -> Graph:
        """The graph of a kind for a model (and optimizer, terms, batch); PackError when the pack carries none."""
        self.table(model)
        for graph in self.manifest.graphs:
            same = (graph.kind, graph.model, graph.optimizer) == (kind, model, optimizer)
            if same and set(graph.terms) == set(terms) and batch in (None, graph.batch):
                return graph
        wanted = " and ".join(filter(None, (optimizer, *terms, f"batch {batch}" if batch else None))) or "no optimizer"
        raise PackError(f"The pack {self.manifest.name} has no {kind} graph for {model} with {wanted}.")

    def network_graph(self, kind: str) -> Graph:
        """One of the two graphs of the network of its front-end, which has to have one."""
        return next(graph for graph in self.manifest.graphs if graph.kind == kind)

    def with_labels(self, labels: Sequence[str], name: str = OTHER_WORDS) -> Pack:
        """The same models for other words: step graphs do not depend on the number of labels.

        What depends on the words is left out: trained weights, thresholds, negatives, a vote, artifacts of other
        runtimes, and the signature.

        Raises
        ------
        PackError
            Fewer than two words, or a word twice.
        """
        words = tuple(labels)
        if len(words) < 2 or len(set(words)) != len(words):
            raise PackError("A task needs at least two different words.")

        def fit(spec: TensorSpec) -> TensorSpec:
            if spec.name not in ("head.weight", "head.bias"):
                return spec
            return msgspec.structs.replace(spec, shape=(len(words), *spec.shape[1:]))

        if words == self.labels:
            return Pack(msgspec.structs.replace(self.manifest, name=name), self.files)
        own = without_vote(self.manifest)
        models = {name: tuple(fit(s) for s in specs) for name, specs in own.architectures.items()}
        task = msgspec.structs.replace(own.task, labels=words)
        kept = {graph.file for graph in own.graphs} | set(DOCUMENTS)
        kept |= set() if own.network is UNSET else {own.network.file}
        manifest = msgspec.structs.replace(
            own,
            name=name,
            task=task,
            architectures=models,
            start={},
            ort_training={},
            tflite=(),
            listening=UNSET,
            negatives=UNSET,
            files=tuple(entry for entry in own.files if entry.path in kept),
        )
        return Pack(manifest, self.files)

    def signed(self, signature: PackSignature) -> Pack:
        """The same pack with a signature; PackError when it is not one over its manifest."""
        return Pack(self.manifest, self.files, self.manifest_bytes, signature)


def pack_bytes(pack: Pack) -> bytes:
    """The pack as `.tar.zst`: manifest, signature, files by name; the same pack gives the same bytes."""
    signature = [] if pack.signature is None else [(SIGNATURE_FILE, encode_signature(pack.signature))]
    return tar_bytes([(MANIFEST_FILE, pack.manifest_bytes), *signature, *sorted(pack.files.items())])


def archive_bytes(pack: Pack) -> bytes:
    """The pack as the `.tar.zst` that it was read from, which is a copy where packing takes seconds; else `pack_bytes`.

    Raises
    ------
    PackError
        A graph that `Pack.hold_only` left in the archive cannot be read there any more.
    """
    if pack.archive is not None:
        with contextlib.suppress(OSError, PackError):  # removed, or written anew while it was in use
            content = read_file(pack.archive)
            there = _from_files(untar(content, str(pack.archive)), str(pack.archive))
            if (there.identity, there.signature) == (pack.identity, pack.signature):
                return content
    return pack_bytes(pack)


def _facts(files: Mapping[str, bytes], path: str) -> tuple[int, str]:
    """Bytes and SHA-256 of a file."""
    if isinstance(files, PackedFiles):
        return files.facts(path)
    return len(files[path]), hashlib.sha256(files[path]).hexdigest()


def _from_files(files: Mapping[str, bytes], where: str) -> Pack:
    if isinstance(files, PackedFiles) and MANIFEST_FILE in files and files.facts(MANIFEST_FILE)[0] > LARGEST_MANIFEST:
        raise PackError(f"The manifest of {where} holds more than {LARGEST_MANIFEST >> 20} MiB.")
    manifest = decode_manifest(files.get(MANIFEST_FILE), where)
    unlisted = set(files) - {entry.path for entry in manifest.files} - {MANIFEST_FILE, SIGNATURE_FILE}
    if unlisted:
        raise PackError(f"{where} holds {min(unlisted)!r}, which its manifest does not list.")
    signature = decode_signature(files[SIGNATURE_FILE], where) if SIGNATURE_FILE in files else None
    return Pack(manifest, files, files[MANIFEST_FILE], signature)


def _from_folder(folder: Path) -> Pack:
    """Reads what the manifest lists and nothing else: a folder may hold other things, such as `.git`."""
    found = {MANIFEST_FILE: read_inside(folder, MANIFEST_FILE, LARGEST_MANIFEST)}
    manifest = decode_manifest(found[MANIFEST_FILE], str(folder))
    if sum(entry.bytes for entry in manifest.files) > LARGEST_PACK:
        raise PackError(f"{folder} holds more than {LARGEST_PACK >> 20} MiB.")
    found[SIGNATURE_FILE] = read_inside(folder, SIGNATURE_FILE, LARGEST_SIGNATURE)
    found |= {entry.path: read_inside(folder, entry.path, entry.bytes) for entry in manifest.files}
    return _from_files({path: data for path, data in found.items() if data is not None}, str(folder))


def _from_archive(path: Path, where: str) -> Pack:
    pack = _from_files(untar(read_file(path), where), where)
    pack.archive = path.absolute()
    return pack


@refuse_misfits
def load_pack(source: str | Path, trusted: Collection[bytes] | None = None) -> Pack:
    """Read a pack: the name of a shipped one (`home`, `gsc12`, ...), a directory, or a `.tar.zst`.

    Parameters
    ----------
    source
        Where it is.
    trusted
        Public keys (32 bytes each) of which one must have signed it; None: a pack without a signature will do. One
        that is there is verified in any case. A shipped pack needs none: it comes with the program that reads it.

    Raises
    ------
    PackError
        There is none, it is not whole and sound, or nobody who is trusted vouches for it.
    """
    if isinstance(source, str) and source in SHIPPED:
        return _from_archive(Path(__file__).with_name(f"{source}.tar.zst"), source)
    pack = _read(source)
    if trusted is not None:
        _refuse_untrusted(pack, trusted)
    return pack


def _read(source: str | Path) -> Pack:
    path = Path(source)
    try:
        if path.is_dir():
            return _from_folder(path)
        if path.is_file():
            _refuse_foreign(path)
            return _from_archive(path, str(path))
    except OSError as error:
        raise PackError(f"{path} cannot be read ({error.strerror}).") from error
    raise PackError(
        f'There is no pack "{source}": give a directory, a .tar.zst file, or one of {", ".join(SHIPPED)}'
        + (f"; {hint}" if (hint := nearest(str(source), SHIPPED)).endswith("?") else ".")
    )


_ARCHIVE = b"\x28\xb5\x2f\xfd"
"""With which a frame of zstd begins."""


def _refuse_foreign(path: Path) -> None:
    with open_archive(path) as file:
        head = file.read(4_096)
    if not head.startswith(_ARCHIVE) and (said := foreign_model(path, head)):
        raise PackError(said)


def _refuse_untrusted(pack: Pack, trusted: Collection[bytes]) -> None:
    if pack.signature is None:
        raise PackError(f"The pack {pack.manifest.name} is not signed, and only packs by a trusted key are taken.")
    if bytes.fromhex(pack.signature.key) not in trusted:
        raise PackError(
            f"The pack {pack.manifest.name} is signed by {pack.signature.key[:16]}..., which is not a trusted key."
        )
