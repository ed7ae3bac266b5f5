"""No secret is in the tree (RELIABILITY S8): private keys, and tokens in the forms that services give them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.recorder import Record

ROOT = Path(__file__).parents[2]
SECRETS = {
    "a private key": rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/]{40}",
    "a key of AWS": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a token of GitHub": rb"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60,})",
    "a token of PyPI": rb"\bpypi-AgE[A-Za-z0-9_-]{50,}",
    "a token of Slack": rb"\bxox[abprs]-[A-Za-z0-9-]{20,}",
    "a password in an address": rb"\b(?:mqtts?|postgresql|https?)://[a-z]+:[A-Za-z0-9+/_-]{20,}@",
}


def found(data: bytes) -> list[str]:
    return [kind for kind, pattern in SECRETS.items() if re.search(pattern, data)]


def tracked() -> list[Path]:
    """Files of the checkout; skips where this is none."""
    done = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("this is no checkout")
    return [ROOT / name for name in done.stdout.decode().split("\0") if name]


@pytest.mark.reliability("S8", load="every file of the checkout, for keys and tokens")
@pytest.mark.slow
def test_no_file_of_the_checkout_has_a_secret_in_it(record_property: Record) -> None:
    files = [path for path in tracked() if path.is_file()]
    assert len(files) > 500
    secrets = {str(path.relative_to(ROOT)): kinds for path in files if (kinds := found(path.read_bytes()))}
    record_property("files", len(files))
    record_property("secrets", len(secrets))
    assert secrets == {}
    assert [path for path in files if path.suffix in (".p12", ".pfx")] == []


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"-----BEGIN EC PRIVATE " + b"KEY-----\n" + b"Q" * 64, "a private key"),
        (b"id = AKIA" + b"Z" * 16, "a key of AWS"),
        (b"ghp_" + b"a" * 36, "a token of GitHub"),
        (b"pypi-AgE" + b"b" * 60, "a token of PyPI"),
        (b"xoxb-" + b"1" * 24, "a token of Slack"),
        (b"mqtts://anna:" + b"x" * 24 + b"@hub.lan", "a password in an address"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_kind_would_be_found(data: bytes, kind: str) -> None:
    assert found(data) == [kind]
