"""The coordinator's tables.

A change here needs a migration: `python -m auricle_cloud.storage.migrations NAME` writes it.
"""

from __future__ import annotations

from auricle_cloud.storage.schema.access import certificates, claims, tokens
from auricle_cloud.storage.schema.base import metadata
from auricle_cloud.storage.schema.releases import installations, releases, rollout_devices, rollout_targets, rollouts
from auricle_cloud.storage.schema.rounds import devices, invitations, losses, meta, models, rounds, tasks, updates
from auricle_cloud.storage.schema.watching import events, hearing, outbox, refusals, schedules

__all__ = [
    "certificates",
    "claims",
    "devices",
    "events",
    "hearing",
    "installations",
    "invitations",
    "losses",
    "meta",
    "metadata",
    "models",
    "outbox",
    "refusals",
    "releases",
    "rollout_devices",
    "rollout_targets",
    "rollouts",
    "rounds",
    "schedules",
    "tasks",
    "tokens",
    "updates",
]
