"""The coordinator's tables.

A change here needs a migration: `python -m auricle_cloud.storage.migrations NAME` writes it.
"""

from __future__ import annotations

from auricle_cloud.storage.schema.operators import (
    certificates,
    claims,
    events,
    hearing,
    outbox,
    refusals,
    schedules,
    tokens,
)
from auricle_cloud.storage.schema.releases import installations, releases, rollout_devices, rollout_targets, rollouts
from auricle_cloud.storage.schema.rounds import (
    devices,
    invitations,
    losses,
    meta,
    metadata,
    models,
    personal_models,
    rounds,
    sums,
    tasks,
    updates,
)

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
    "personal_models",
    "refusals",
    "releases",
    "rollout_devices",
    "rollout_targets",
    "rollouts",
    "rounds",
    "schedules",
    "sums",
    "tasks",
    "tokens",
    "updates",
]
