"""The pack: everything a board needs to train and run a task, as plain files behind one manifest.

A pack is a directory or a deterministic `.tar.zst` of it, named by the SHA-256 of `manifest.json`. Graphs are ordinary
ONNX; every file is checked against the manifest before it is used.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import zstandard

from auricle.errors import PackError, WireError, nearest
from auricle.messages import Sha256, Short, Token
from auricle.tensors import Dim, Name, TensorSpec, TensorTable

FORMAT = 1
LARGEST_PACK = 64 << 20
"""Most bytes a pack may unpack to."""
SHIPPED = ("digits", "gsc12", "gsc35")

PARTS = ("body", "head.weight", "head.bias")
"""The three tensors that carry a model, or an optimiser's vector, into a graph and out of it."""
SLOTS: dict[str, tuple[str, ...]] = {"sgd": ("momentum",), "adamw": ("first", "second")}
"""Optimiser state of the step graphs: so many vectors of the model's size."""
ROLES = {"mutual": ("local", "plugin"), "supervised": ("model",), "evaluate": ("model",)}
"""The models that a graph of each kind takes."""

_PATH = r"^[a-z0-9_][a-z0-9_.-]*(/[a-z0-9_][a-z0-9_.-]*){0,3}\Z"
FilePath = Annotated[str, msgspec.Meta(pattern=_PATH, max_length=100)]
Samples = Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]
Bands = Annotated[int, msgspec.Meta(ge=1, le=1 << 10)]


class Frontend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the log-mel front-end; `auricle.speech.features` computes exactly this."""

    window: Samples = 400
    """Samples of a Hann window."""
    hop: Samples = 160
    """Samples between windows."""
    fft: Samples = 512
    mels: Bands = 40
    low_hz: Annotated[float, msgspec.Meta(ge=0)] = 20.0
    high_hz: Annotated[float, msgspec.Meta(gt=0)] = 7600.0
    floor: Annotated[float, msgspec.Meta(gt=0)] = 1e-6
    """Added to the mel energies before the logarithm."""
    scale: Annotated[float, msgspec.Meta(gt=0)] = 0.25
    """Log-mels are centred on their own clip's mean and multiplied by this."""


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is recognised, and from what input."""

    labels: Annotated[tuple[Name, ...], msgspec.Meta(min_length=2, max_length=10_000)]
    sample_rate: Dim = 16_000
    clip_samples: Dim = 16_000
    frames: Bands = 100
    frontend: Frontend = Frontend()


class Graph(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One ONNX file and its interface."""

    kind: Literal["mutual", "supervised", "evaluate"]
    model: Token
    """The architecture that is trained or run; in a mutual step the local one."""
    plugin: Token | None = None
    optimiser: Literal["sgd", "adamw"] | None = None
    file: FilePath
    batch: Dim | None = None
    """Fixed batch; None: any."""
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the pack."""

    path: FilePath
    bytes: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_PACK)]
    sha256: Sha256


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a pack is. The label count of `head.*` tensors is that of `task.labels`."""

    format: Annotated[int, msgspec.Meta(ge=1)]
    name: Token
    task: Task
    plugin: Token
    architectures: dict[Token, tuple[TensorSpec, ...]]
    graphs: tuple[Graph, ...]
    files: tuple[FileEntry, ...]
    producers: dict[Short, Short]


class Pack:
    """A checked pack in memory.

    Parameters
    ----------
    manifest
        Its manifest.
    files
        Content of every file the manifest lists.

    Raises
    ------
    PackError
        A file is missing, of another length or another hash; the format is of another version; a table is unsound.
    """

    def __init__(self, manifest: Manifest, files: Mapping[str, bytes]) -> None:
        if manifest.format != FORMAT:
            raise PackError(f"This pack has format {manifest.format}; this version of Auricle reads {FORMAT}.")
        for entry in manifest.files:
            content = files.get(entry.path)
            if content is None:
                raise PackError(f"The pack {manifest.name} lacks its file {entry.path}.")
            if len(content) != entry.bytes or hashlib.sha256(content).hexdigest() != entry.sha256:
                raise PackError(f"The file {entry.path} of the pack {manifest.name} is not the one its manifest names.")
        paths = [entry.path for entry in manifest.files]
        if len(set(paths)) != len(paths) or "manifest.json" in paths:
            raise PackError(f"The pack {manifest.name} lists a file twice, or its own manifest.")
        self.manifest = manifest
        self.files = {entry.path: files[entry.path] for entry in manifest.files}
        self.identity = hashlib.sha256(encode_manifest(manifest)).hexdigest()
        try:
            self.tables = {name: TensorTable(specs) for name, specs in manifest.architectures.items()}
        except WireError as error:
            raise PackError(f"The pack {manifest.name}: {error}") from error
        self._check_interfaces()

    def _check_interfaces(self) -> None:
        manifest, labels = self.manifest, len(self.manifest.task.labels)
        if len(set(self.labels)) != labels:
            raise PackError(f"The pack {manifest.name} has a label twice.")
        if manifest.plugin not in self.tables:
            raise PackError(f"The pack {manifest.name} names a plug-in {manifest.plugin} that it does not describe.")
        for name, table in self.tables.items():
            if table.specs[-2].shape[0] != labels or table.specs[-1].shape != (labels,):
                raise PackError(f"The classifier of {name} in the pack {manifest.name} is not one for {labels} labels.")
        for graph in manifest.graphs:
            if graph.file not in self.files or graph.model not in self.tables:
                raise PackError(f"A graph of the pack {manifest.name} names a file or model that is not there.")
            self._check_graph(graph)

    def _check_graph(self, graph: Graph) -> None:
        """A graph takes its batch and its models, and gives back each model and optimiser vector it changes."""
        roles = ROLES[graph.kind]
        slots = SLOTS[graph.optimiser] if graph.optimiser else ()
        vectors = [*roles, *(f"{role}.{slot}" for role in roles for slot in slots)]
        carried = {f"{vector}/{part}" for vector in vectors for part in PARTS}
        if graph.kind == "evaluate":
            inputs, outputs = {"x", *carried}, {"logits"}
            sound = graph.optimiser is None
        else:
            inputs = {"x", "target", "weight", *carried}
            losses = {"loss"} if graph.kind == "supervised" else {"loss.local", "loss.plugin"}
            outputs = {*losses, *(f"new/{name}" for name in carried)}
            sound = graph.optimiser is not None and graph.batch is not None
            sound = sound and graph.plugin == (self.manifest.plugin if graph.kind == "mutual" else None)
        once = len(set(graph.inputs)) == len(graph.inputs) and len(set(graph.outputs)) == len(graph.outputs)
        if not (sound and once and inputs <= set(graph.inputs) and outputs == set(graph.outputs)):
            raise PackError(
                f"The {graph.kind} graph {graph.file} of the pack {self.manifest.name} lacks an input or output that "
                f"such a graph has: rebuild the pack."
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """The words, in the classifier's order."""
        return self.manifest.task.labels

    @property
    def plugin_table(self) -> TensorTable:
        """Tensor table of the plug-in: the layout of what travels."""
        return self.tables[self.manifest.plugin]

    def table(self, architecture: str) -> TensorTable:
        """Tensor table of a model; PackError with a hint when there is none of that name."""
        if architecture not in self.tables:
            raise PackError(
                f'The pack {self.manifest.name} has no model "{architecture}": {nearest(architecture, self.tables)}'
            )
        return self.tables[architecture]

    def graph(self, kind: str, model: str, optimiser: str | None = None) -> Graph:
        """The graph of a kind for a model (and optimiser); PackError when the pack carries none."""
        self.table(model)
        for graph in self.manifest.graphs:
            if (graph.kind, graph.model, graph.optimiser) == (kind, model, optimiser):
                return graph
        raise PackError(f"The pack {self.manifest.name} has no {kind} graph for {model} with {optimiser}.")

    def with_labels(self, labels: Sequence[str], name: str = "custom") -> Pack:
        """The same models for other words: step graphs do not depend on the number of labels.

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

        models = {name: tuple(fit(s) for s in specs) for name, specs in self.manifest.architectures.items()}
        task = msgspec.structs.replace(self.manifest.task, labels=words)
        manifest = msgspec.structs.replace(self.manifest, name=name, task=task, architectures=models)
        return Pack(manifest, self.files)


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest's bytes: sorted keys, two spaces, a final newline; their SHA-256 names the pack."""
    return msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=2) + b"\n"


def pack_bytes(pack: Pack) -> bytes:
    """The pack as `.tar.zst`: sorted names, no times, no owners; the same pack gives the same bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, content in [("manifest.json", encode_manifest(pack.manifest)), *sorted(pack.files.items())]:
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    settings = zstandard.ZstdCompressionParameters.from_level(19, window_log=24, enable_ldm=True)
    return zstandard.ZstdCompressor(compression_params=settings).compress(raw.getvalue())


def _untar(data: bytes, where: str) -> dict[str, bytes]:
    try:
        raw = _decompress(data)
        if len(raw) > LARGEST_PACK:
            raise PackError(f"{where} unpacks to more than {LARGEST_PACK >> 20} MiB.")
        files: dict[str, bytes] = {}
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:", format=tarfile.USTAR_FORMAT) as archive:
            for member in archive:
                if member.type != tarfile.REGTYPE or member.issparse() or not 0 <= member.size <= len(raw):
                    raise PackError(f"{where} holds {member.name!r}, which is not a plain file.")
                file = archive.extractfile(member)
                if file is None or member.name in files:
                    raise PackError(f"{where} holds {member.name!r} twice.")
                files[member.name] = file.read()
    except (zstandard.ZstdError, tarfile.TarError, ValueError, OverflowError, EOFError, RecursionError) as error:
        raise PackError(f"{where} is not a pack: {error}.") from error
    return files


def _decompress(data: bytes) -> bytes:
    """At most `LARGEST_PACK` + 1 bytes of what was compressed, whatever size the archive claims for itself."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=LARGEST_PACK)
    with decompressor.stream_reader(data, read_across_frames=True) as reader:
        return reader.read(LARGEST_PACK + 1)


def _from_files(files: Mapping[str, bytes], where: str) -> Pack:
    if "manifest.json" not in files:
        raise PackError(f"{where} is not a pack: it has no manifest.json.")
    try:
        manifest = msgspec.json.decode(files["manifest.json"], type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PackError(f"The manifest of {where} is not valid: {error}.") from error
    return Pack(manifest, files)


def _refuse_large(path: Path, size: int) -> None:
    if size > LARGEST_PACK:
        raise PackError(f"{path} holds more than {LARGEST_PACK >> 20} MiB.")


def load_pack(source: str | Path) -> Pack:
    """Read a pack: the name of a shipped one (`gsc12`, `gsc35`, `digits`), a directory, or a `.tar.zst`.

    Raises
    ------
    PackError
        There is none, or it is not whole and sound.
    """
    if isinstance(source, str) and source in SHIPPED:
        shipped = resources.files("auricle").joinpath("packs") / f"{source}.tar.zst"
        return _from_files(_untar(shipped.read_bytes(), source), source)
    path = Path(source)
    try:
        if path.is_dir():
            names = [p for p in sorted(path.rglob("*")) if p.is_file()]
            _refuse_large(path, sum(p.stat().st_size for p in names))
            return _from_files({p.relative_to(path).as_posix(): p.read_bytes() for p in names}, str(path))
        if path.is_file():
            _refuse_large(path, path.stat().st_size)
            return _from_files(_untar(path.read_bytes(), str(path)), str(path))
    except OSError as error:
        raise PackError(f"{path} cannot be read ({error.strerror}).") from error
    raise PackError(
        f'There is no pack "{source}": give a directory, a .tar.zst file, or one of {", ".join(SHIPPED)}; '
        f"{nearest(str(source), SHIPPED)}"
    )
