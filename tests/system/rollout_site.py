"""Releases and rollouts as an operator makes them, and what the cloud says of a device while it goes through one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from auricle.packs.manifest import FileEntry
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle_cloud.storage.store import FILE, Store
from tests.firstboot.house import House

DIGITS = load_pack("digits")


def wait_for(found: Callable[[], Any], what: Callable[[], object], seconds: float) -> Any:
    """What is found, as soon as it is; AssertionError with `what` when it is not in time."""
    end = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < end, what()
        time.sleep(0.1)
    return result


class Releases:
    """The releases and rollouts of a house; its operator's keys lie beside."""

    def __init__(self, house: House) -> None:
        self.house, self._keys = house, ("--keys", str(house.folder / "keys"))
        self.root = house.folder / "root.json"  # what devices trust first
        house.ask("releases", "init", *self._keys, "--root", str(self.root))

    @property
    def metadata(self) -> Path:
        return self.house.state / "releases/metadata"

    def add(self, file: Path) -> str:
        """Release a bundle or pack; its identity."""
        return str(self.house.ask("releases", "add", str(file), *self._keys)["identity"])

    def start(self, identity: str) -> str:
        """Roll it out to all; the rollout's name."""
        return str(self.house.ask("rollouts", "start", identity[:12], "--stages", "100", "--soak", "0m")["rollout"])

    def show(self, rollout: str) -> dict[str, Any]:
        """What `auricle cloud rollouts show --json` says."""
        return self.house.ask("rollouts", "show", rollout)

    def abort(self, rollout: str) -> None:
        self.house.ask("rollouts", "abort", rollout, "--yes")

    def knows(self, device: str) -> bool:
        """Whether the device has said what it runs."""
        store = Store(self.house.state / FILE, must_exist=True)
        try:
            return bool(store.rollouts.installed([device]))
        finally:
            store.close()

    def watch(self, rollout: str, look: Callable[[str], None], seconds: float) -> dict[str, Any]:
        """What `rollouts show --json` says in the end; `look` gets all that is said of a device until then."""
        store = Store(self.house.state / FILE, must_exist=True)

        def over() -> bool:
            row, members, _ = store.rollouts.whole(rollout)
            for member in members.values():
                look(member.state)
            return row.state != "running"

        try:
            wait_for(over, lambda: self.show(rollout), seconds)
        finally:
            store.close()
        return self.show(rollout)


def another(name: str, changed: Mapping[str, bytes] | None = None) -> Pack:
    """The digits under another name, and with other files: another pack."""
    files = {**DIGITS.files, **(changed or {})}
    entries = tuple(FileEntry.of(entry.path, files[entry.path]) for entry in DIGITS.manifest.files)
    return Pack(msgspec.structs.replace(DIGITS.manifest, name=name, files=entries), files)


def deaf(name: str) -> Pack:
    """A pack that is sound, and runs on silence; its models fail on every other sound."""
    graphs = [graph.file for graph in DIGITS.manifest.graphs if graph.kind == "evaluate"]
    return another(name, {file: _deaf(bytes(DIGITS.files[file])) for file in graphs})


def _deaf(content: bytes) -> bytes:
    """A graph that looks up, in a table with one row, the row of the greatest absolute value of its input."""
    model = onnx.load_from_string(content)
    graph = model.graph
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name == "x":
                node.input[place] = "deaf/x"
    graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), "deaf/table"))
    nodes = [
        helper.make_node("Abs", ["x"], ["deaf/size"]),
        helper.make_node("ReduceMax", ["deaf/size"], ["deaf/most"], keepdims=0),
        helper.make_node("Ceil", ["deaf/most"], ["deaf/row"]),
        helper.make_node("Cast", ["deaf/row"], ["deaf/index"], to=TensorProto.INT64),
        helper.make_node("Gather", ["deaf/table", "deaf/index"], ["deaf/zero"]),
        helper.make_node("Add", ["x", "deaf/zero"], ["deaf/x"]),
    ]
    had = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *had])
    return bytes(model.SerializeToString())


def write_pack(pack: Pack, folder: Path) -> Path:
    path = folder / f"{pack.manifest.name}.tar.zst"
    path.write_bytes(pack_bytes(pack))
    return path
