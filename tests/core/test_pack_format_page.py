"""The page that documents the format says what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from auricle.checks.graph_check import HIGHEST_IR, HIGHEST_OPSET, LARGEST_TOTAL, LOWEST_IR, LOWEST_OPSET
from auricle.checks.onnx_reader import HIGHEST_RANK, LARGEST_TENSOR, MOST_NODES
from auricle.checks.onnx_wire import LONGEST_TEXT, MOST_FIELDS
from auricle.packs.graph_interface import LOSSES, SCALARS, SLOTS, TAKEN
from auricle.packs.manifest import LARGEST_MANIFEST, LARGEST_PACK, READABLE, Manifest
from auricle.packs.signature import DOMAIN, LARGEST_SIGNATURE
from auricle.wire.gradient_terms import TERMS

PAGE = (Path(__file__).parents[2] / "docs" / "pack-format.md").read_text()


@pytest.mark.parametrize(
    "said",
    [
        f"# The pack, formats {READABLE[0]} to {READABLE[-1]}",
        f"| pack, unpacked | {LARGEST_PACK >> 20} MiB |",
        f"| manifest | {LARGEST_MANIFEST >> 20} MiB |",
        f"| 2^{LARGEST_TENSOR.bit_length() - 1} |",
        f"| 2^{LARGEST_TOTAL.bit_length() - 1} |",
        f"| nodes of a graph | {MOST_NODES:,} |",
        f"| dimensions of a tensor | {HIGHEST_RANK} |",
        f"| {MOST_FIELDS:,} |",
        f"| bytes of a name in an ONNX file | {LONGEST_TEXT} |",
        f"IR version {LOWEST_IR} to {HIGHEST_IR} and an opset of {LOWEST_OPSET} to {HIGHEST_OPSET}",
        f"the {len(DOMAIN)} bytes `{DOMAIN[:-1].decode()}` + NUL",
        f"at most {LARGEST_SIGNATURE} bytes",
        *(f"`{name}`" for name in Manifest.__struct_fields__),
    ],
)
def test_the_page_says_it(said: str) -> None:
    assert said in PAGE


@pytest.mark.parametrize("kind", TAKEN)
def test_the_page_names_what_a_graph_takes_and_gives(kind: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `") and f"`{kind}`" in line.split("|")[1])
    for name in (*TAKEN[kind], *LOSSES[kind]):
        assert f"`{name.split('/')[0]}" in row


def test_the_page_names_optimizers_and_terms() -> None:
    for optimizer, scalars in SCALARS.items():
        assert " ".join(scalars) in PAGE
        assert all(f"`ROLE.{slot}`" in PAGE for slot in SLOTS[optimizer])
    for name, term in TERMS.items():
        assert f"`{name}`" in PAGE
        assert all(f"`ROLE.{each}`" in PAGE for each in (*term.scalars, *term.vectors))
