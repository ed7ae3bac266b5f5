"""What a device and the coordinator's API tell each other about an identity, to the letter and the limit."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from auricle.errors import DataError
from auricle.wire.claims import Certified, Claim, Renewal, TokenFile, read_token, read_token_file, token_text

TOKEN = "t" * 43
ASKED = {
    Claim: {"token": TOKEN, "request": "r"},
    Renewal: {"certificate": "c", "request": "r"},
}


def test_below_a_token_stands_where_it_is_exchanged_if_that_is_known(tmp_path: Path) -> None:
    file = tmp_path / "kitchen-1.token"
    bare, whole = token_text(TOKEN, None, "c" * 64), token_text(TOKEN, "https://hub:8443", "c" * 64)
    assert bare == f"{TOKEN}\n"
    assert whole == f"{TOKEN}\nserver https://hub:8443\nca-pin {'c' * 64}\n"
    file.write_text(bare)
    assert read_token_file(file) == TokenFile(token=TOKEN)
    file.write_text(whole)
    assert read_token_file(file) == TokenFile(token=TOKEN, server="https://hub:8443", ca_pin="c" * 64)
    assert read_token(file) == TOKEN


@pytest.mark.parametrize("text", ["", f"{TOKEN}\nport 1", f"{TOKEN}\nserver", "t" * 19, "t" * 101, f"{TOKEN}!"])
def test_a_file_of_anything_else_is_no_token(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kitchen-1.token"
    file.write_text(text)
    with pytest.raises(DataError, match=r"kitchen-1\.token holds no claim token"):
        read_token_file(file)
    with pytest.raises(DataError, match="There is no claim token"):
        read_token_file(tmp_path / "none")


@pytest.mark.parametrize("length", [20, 100])
def test_a_token_has_20_to_100_letters(length: int) -> None:
    assert msgspec.convert({"token": "t" * length, "request": "r"}, Claim).token == "t" * length
    for wrong in ("t" * 19, "t" * 101):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"token": wrong, "request": "r"}, Claim)


@pytest.mark.parametrize("kind", ASKED)
def test_what_is_asked_is_named_bounded_and_nothing_more(kind: type[Claim | Renewal]) -> None:
    """A certificate or request in text has 1 to 16,384 letters."""
    for length in (1, 16_384):
        assert msgspec.convert(ASKED[kind] | {"request": "r" * length}, kind).request == "r" * length
    for wrong in ({"request": ""}, {"request": "r" * 16_385}, {"request": "r\0"}, {"device": "coordinator"}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(ASKED[kind] | wrong, kind)
    with pytest.raises(TypeError):
        kind(*ASKED[kind].values())  # type: ignore[call-arg]


def test_a_device_reads_an_answer_that_says_more() -> None:
    """A coordinator may be newer than its devices."""
    told = {"device": "kitchen-1", "certificate": "c", "expires": 2.0, "renew_after": 1.0}
    due = Certified(device="kitchen-1", certificate="c", expires=2.0, renew_after=1.0)
    assert msgspec.convert(told | {"later": 1}, Certified) == due
    for place in ("fleet", "broker", "coordinator", "password"):
        assert getattr(due, place) is None
    assert msgspec.convert(told | {"broker": "b" * 300, "coordinator": "0" * 64}, Certified).broker == "b" * 300
    for wrong in ({"broker": "b" * 301}, {"coordinator": "0" * 63}, {"coordinator": "0" * 65}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(told | wrong, Certified)
    with pytest.raises(TypeError):
        Certified("kitchen-1", "c", 2.0, 1.0)  # type: ignore[call-arg]
