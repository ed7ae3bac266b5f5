"""Many boards at a time: each ends for itself, and what became of it is told."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from auricle.errors import AuricleError
from auricle_export.flash.board import Board
from auricle_export.flash.push.hosts import Host
from auricle_export.flash.push.installation import Outcome, Parcel, Step, push
from auricle_export.flash.push.session import Access, Session

Heard = Callable[[Host], Step]
"""Gives what is told of a board's steps."""


def push_all(
    hosts: Sequence[Host],
    access: Access,
    parcel: Parcel,
    board: Board,
    heard: Heard,
    *,
    root: str,
    sudo: bool,
    password: str | None,
    at_once: int,
) -> list[Outcome]:
    """Install a bundle on boards, `at_once` of them at a time; Ctrl-C ends all that run.

    Returns
    -------
    list
        What became of each, in the order of the boards.
    """
    with tempfile.TemporaryDirectory(prefix="auricle-") as control:
        sessions = [Session(host, replace(access, control=Path(control)), password=password) for host in hosts]

        def one(session: Session) -> Outcome:
            try:
                return push(session, parcel, board, heard(session.host), root=root, sudo=sudo)
            except AuricleError as error:
                return Outcome(
                    host=str(session.host), state="interrupted" if session.stopped else "failed", reason=str(error)
                )
            finally:
                session.close()

        with ThreadPoolExecutor(at_once) as pool:
            coming = [pool.submit(one, session) for session in sessions]
            try:
                return [each.result() for each in coming]
            except KeyboardInterrupt:
                for session in sessions:
                    session.stop()
                return [each.result() for each in coming]
