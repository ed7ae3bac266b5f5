"""EMQX's files, read as HOCON and as Erlang terms: what can be known of them without an EMQX."""

from __future__ import annotations

import csv
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from auricle.mqtt_link.broker_rights import Roles
from auricle_cloud.identity.broker_files import (
    EMQX_USERS,
    LARGEST_PACKET,
    Listener,
    Passwords,
    emqx_acl,
    emqx_configuration,
)

FOLDER = Path("/etc/auricle/broker")
CONSULT = """
{ok, Rules} = file:consult(File),
Word = fun(Text) -> io_lib:printable_unicode_list(Text) end,
Does = fun({publish, [{retain, false}]}) -> true; (Action) -> lists:member(Action, [all, publish, subscribe]) end,
Who = fun(all) -> true; ({username, Name}) -> Word(Name); (_) -> false end,
Sound = fun
  ({deny, all}) -> true;
  ({Verdict, Whom, Action, Topics}) ->
    lists:member(Verdict, [allow, deny]) andalso Does(Action)
      andalso Who(Whom) andalso Topics =/= [] andalso lists:all(Word, Topics);
  (_) -> false
end,
[] = [Rule || Rule <- Rules, not Sound(Rule)],
{deny, all} = lists:last(Rules),
io:format("~b", [length(Rules)]),
halt(0).
"""
"""Rules as EMQX 5 takes them: verdict, who, action, topics; an error ends Erlang with a code that is not 0."""


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_the_configuration_is_hocon_and_says_what_it_must(address: str) -> None:
    hocon = pytest.importorskip("pyhocon", reason="pyhocon is not installed")

    read = hocon.ConfigFactory.parse_string(emqx_configuration(FOLDER, Listener(address)))

    assert [read[f"listeners.{kind}.default.enable"] for kind in ("tcp", "ssl", "ws", "wss")] == [False] * 4
    listener = read["listeners.ssl.auricle"]
    assert listener["bind"] == f"{'[::]' if address == '::' else address}:8883"
    assert (listener["ssl_options.verify"], listener["ssl_options.fail_if_no_peer_cert"]) == ("verify_peer", True)
    assert listener["ssl_options.versions"] == ["tlsv1.3", "tlsv1.2"]
    assert listener["ssl_options.cacertfile"] == str(FOLDER / "authority.pem")
    assert (read["mqtt.peer_cert_as_username"], read["mqtt.peer_cert_as_clientid"]) == ("cn", "cn")
    assert (read["authorization.no_match"], read["authorization.deny_action"]) == ("deny", "ignore")
    source = read["authorization.sources"][0]
    assert (source["type"], source["enable"], source["path"]) == ("file", True, str(FOLDER / "acl.conf"))
    assert "authentication" not in read


def test_with_passwords_names_are_those_of_the_built_in_database() -> None:
    hocon = pytest.importorskip("pyhocon", reason="pyhocon is not installed")

    read = hocon.ConfigFactory.parse_string(emqx_configuration(FOLDER, Listener(), passwords=True))

    ssl = read["listeners.ssl.auricle.ssl_options"]
    assert (ssl["verify"], ssl["fail_if_no_peer_cert"]) == ("verify_peer", True)
    assert read["mqtt.use_username_as_clientid"] is True
    assert not [name for name in read["mqtt"] if name.startswith("peer_cert")]
    (users,) = read["authentication"]
    assert (users["mechanism"], users["backend"]) == ("password_based", "built_in_database")
    assert (users["user_id_type"], users["bootstrap_type"]) == ("username", "hash")
    assert dict(users["password_hash_algorithm"]) == {"name": "sha256", "salt_position": "prefix"}
    assert users["bootstrap_file"] == str(FOLDER / EMQX_USERS)


def test_users_are_rows_as_emqx_imports_them() -> None:
    """Salt before the password, hexadecimal SHA-256, and nobody is a superuser, who may do everything."""
    passwords = Passwords(bytes(32))

    rows = list(csv.DictReader(passwords.emqx(["coordinator", "dev-a"]).splitlines()))

    assert [row["user_id"] for row in rows] == ["coordinator", "dev-a"]
    for row in rows:
        salted = row["salt"] + passwords.of(row["user_id"])
        assert row["password_hash"] == hashlib.sha256(salted.encode()).hexdigest()
        assert (len(row["salt"]), row["is_superuser"]) == (32, "false")
    assert len({row["salt"] for row in rows}) == 2


def test_the_largest_packet_is_a_size_as_emqx_writes_them() -> None:
    """Unquoted, EMQX's own scanner knows kb, MB and so on, and no B (hocon_scanner.xrl, Bytesize)."""
    found = re.search(r"^  max_packet_size = (\d+)KB$", emqx_configuration(FOLDER, Listener()), re.MULTILINE)
    assert int(found[1]) << 10 == LARGEST_PACKET


@pytest.mark.slow
def test_the_access_list_is_made_of_rules_that_erlang_reads(tmp_path: Path) -> None:
    if shutil.which("erl") is None:
        pytest.skip("erl is not installed (apt install erlang-base)")
    text = emqx_acl(Roles("home"), ["pi-01", "observer"])
    (tmp_path / "acl.conf").write_text(text)

    program = f'File = "{tmp_path / "acl.conf"}",{CONSULT}'
    done = subprocess.run(
        ["erl", "-noshell", "-eval", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == str(len(text.splitlines()))
