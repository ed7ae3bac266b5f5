"""The other end, for commands: ask the service that runs in a state folder."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from auricle.errors import AuricleError, because

if TYPE_CHECKING:
    from http.client import HTTPResponse

SOCKET = "control.sock"
PATIENCE_SECONDS = 30.0
"""Seconds within which the service says something."""


class ControlClient:
    """Asks the service of a device.

    Parameters
    ----------
    folder
        Its state folder.
    absent
        What is said where no service runs there; without, how to start one by hand.
    """

    def __init__(self, folder: Path, absent: str | None = None) -> None:
        self._folder = folder
        self._absent = absent or (
            f"No service runs in {folder}: start auricle edge run with --state {folder}, or name its folder with "
            "--state."
        )

    def get(self, place: str) -> dict[str, object]:
        """Ask; the answer as it came, since a service of another version may say more.

        Raises
        ------
        AuricleError
            No service runs there, or it refuses: its own words.
        """
        return self._once("GET", place, None)

    def post(self, place: str, body: Mapping[str, object]) -> dict[str, object]:
        """Have something done; errors as in `get`."""
        return self._once("POST", place, body)

    def stream(self, method: str, place: str, body: Mapping[str, object] | None = None) -> Iterator[dict[str, object]]:
        """Answers as they come; errors as in `get`."""
        response = self._ask(method, place, body)
        try:
            while line := response.readline():
                answer = json.loads(line)
                if "error" in answer:
                    raise AuricleError(str(answer["error"]))
                yield answer
        except (OSError, ValueError) as error:
            raise AuricleError(f"The service in {self._folder} stopped answering: {because(error)}.") from error
        finally:
            response.close()

    def _once(self, method: str, place: str, body: Mapping[str, object] | None) -> dict[str, object]:
        from http.client import HTTPException

        response = self._ask(method, place, body)
        try:
            answer: dict[str, object] = json.loads(response.read())
        except (OSError, ValueError, HTTPException) as error:
            raise AuricleError(f"The service in {self._folder} stopped answering: {because(error)}.") from error
        return answer

    def _ask(self, method: str, place: str, body: Mapping[str, object] | None) -> HTTPResponse:
        from http.client import HTTPConnection, HTTPException  # here: the service asks nobody

        connection = HTTPConnection("localhost", timeout=PATIENCE_SECONDS)
        try:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(PATIENCE_SECONDS)
            connection.sock.connect(str(self._folder / SOCKET))
            connection.request(method, place, None if body is None else json.dumps(body).encode())
            response = connection.getresponse()
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise AuricleError(self._absent) from error
        except PermissionError as error:
            raise AuricleError(f"You may not use the service in {self._folder}: ask as the user it runs as.") from error
        except (OSError, HTTPException) as error:
            raise AuricleError(f"The service in {self._folder} does not answer: {because(error)}.") from error
        if response.status != 200:
            raise AuricleError(_reason(response))
        return response


def _reason(response: HTTPResponse) -> str:
    from http.client import HTTPException

    try:
        return str(json.loads(response.read())["error"])
    except (OSError, ValueError, KeyError, TypeError, HTTPException):
        return f"The service refused with {response.status}."
