"""Command lines of coordinators and devices, by the names of their options."""

from __future__ import annotations


def options(**given: object) -> list[str]:
    """`name=value` as `--name value`; True is a flag, and what is None is left out."""
    pairs = [(f"--{name.replace('_', '-')}", value) for name, value in given.items() if value is not None]
    return [word for name, value in pairs for word in ([name] if value is True else [name, str(value)])]


def serve(**more: object) -> list[str]:
    """`auricle cloud serve` without a page, which approves every device."""
    return ["cloud", "serve", *options(**{"approval": "auto", "listen": "none", "json": True, **more})]


def run(**more: object) -> list[str]:
    """`auricle edge run`."""
    return ["edge", "run", *options(**{"json": True, **more})]
