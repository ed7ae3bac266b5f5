"""The diagnosis bundle: what helps is in it, and nothing that is secret or was said."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from auricle_edge.service.diagnosis import redact, write_bundle

STATE: dict[str, Any] = {
    "broker": "mqtts://kitchen-1:hunter2@broker:8883",
    "password": "hunter2",
    "pack_key": "ab" * 32,
    "detect": {"thresholds": {"yes": 0.5}, "hop": 0.1},
    "last": {"word": "yes", "score": 0.9},
    "clips": [{"word": "stop", "source": "enrolled"}],
    "token": None,
    "restarts": {"silence": 2},
}


def broken() -> Any:
    raise RuntimeError("no answer from mqtt://user:hunter2@home")


def test_secrets_and_words_are_removed_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "diag.tar.gz"
    assert write_bundle(path, {"state": lambda: STATE, "link": broken}) == ["state.json", "link.json"]
    with tarfile.open(path) as archive:
        texts = {m.name: archive.extractfile(m).read().decode() for m in archive}  # type: ignore[union-attr]
    whole = "".join(texts.values())
    for private in ("hunter2", "yes", "stop", "abab"):
        assert private not in whole
    state = json.loads(texts["auricle-diagnosis/state.json"])
    assert state["broker"] == "mqtts://(removed)@broker:8883"
    assert state["restarts"] == {"silence": 2}
    assert state["detect"]["hop"] == 0.1
    assert state["token"] is None
    assert "no answer" in json.loads(texts["auricle-diagnosis/link.json"])["error"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_names_that_only_contain_key_letters_stay() -> None:
    assert redact({"monkey": 1, "public_key": "x"}) == {"monkey": 1, "public_key": "(removed)"}


def test_a_hooks_arguments_are_removed_and_its_program_stays() -> None:
    told = redact({"events": {"hook": ("/usr/bin/curl", "-H", "Authorization: Bearer hunter2", "https://u:p@h")}})
    assert told == {"events": {"hook": ["/usr/bin/curl", "(removed)", "(removed)", "(removed)"]}}
    assert redact({"events": {"hook": ()}}) == {"events": {"hook": []}}
