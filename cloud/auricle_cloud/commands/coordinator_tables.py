"""The tables of `coordinator.toml` that are not a part's own settings: rounds, detection, API, storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from auricle.wire.kinds import Count
from auricle_cloud.api.api_settings import ApiSettings, ConnectionLimits
from auricle_cloud.settings import Detection
from auricle_learning.methods import MethodSettings

Share = Annotated[float, Meta(gt=0, le=1)]
Positive = Annotated[float, Meta(gt=0, le=1e9)]
NotNegative = Annotated[float, Meta(ge=0, le=1e9)]
Many = Annotated[int, Meta(ge=1, le=1 << 40)]
Options = Mapping[str, object]
"""Values of a method's options by name; each method checks its own."""


class RoundSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[rounds]`."""

    rounds: Annotated[Many | None, Meta(description="Run so many rounds in all and leave [wait for operators].")] = None
    devices: Annotated[Count, Meta(description="With rounds: registered devices to wait for before the first.")] = 1
    gather: Annotated[
        NotNegative, Meta(description="Seconds to wait for them; then it begins with those that are there.")
    ] = 120.0
    mode: Annotated[
        Literal["sync", "async"],
        Meta(description="sync, or async: a new model after every few updates, without waiting for anybody."),
    ] = "sync"
    preset: Annotated[
        str, Meta(description="practical, paper (FedMLAC's own settings), or fedavg (the tuned baseline).")
    ] = "practical"
    method: Annotated[
        str | None, Meta(description="Method of federated learning, see docs/methods.md [the preset's].")
    ] = None
    method_options: Annotated[Options, Meta(description="A table of options of the method, e.g. prune_high.")] = {}
    server_rate: Annotated[
        Positive | None,
        Meta(description="Learning rate of the server's optimizer [the preset's; from trained weights a gentle step]."),
    ] = None
    codec: Annotated[
        Literal["float32", "float16", "int8", "top-k"],
        Meta(
            description="How updates travel: int8 takes a quarter of float32's bytes, top-k less than a tenth; an old "
            "agent sends float32."
        ),
    ] = "float32"
    horizon: Annotated[Many, Meta(description="Rounds over which rates change where rounds is not given.")] = 200
    participation: Annotated[Share, Meta(description="Share of the devices wanted in a round.")] = 1.0
    over_selection: Annotated[
        float,
        Meta(ge=1, le=10, description="Invite this many times as many devices, and close when enough have answered."),
    ] = 1.0
    quorum: Annotated[
        Share, Meta(description="Share of the invited that is enough to close a round that has waited.")
    ] = 0.7
    deadline: Annotated[Positive, Meta(description="Seconds after which a round closes.")] = 300.0
    patience: Annotated[
        float, Meta(ge=0, le=1e6, description="Once the quorum is in, wait so many times as long again as it took.")
    ] = 2.0
    least_wait: Annotated[
        float, Meta(ge=0, le=1e9, description="Seconds to wait for the others at least, once the quorum is in.")
    ] = 5.0

    def choose_method(self, usual: MethodSettings) -> MethodSettings:
        """The method with its options, over those of `usual`, the preset's, unless it is another one."""
        return usual.override(self.method, self.method_options)


class DetectionTable(Detection, frozen=True, forbid_unknown_fields=True):
    """Table `[detection]`."""

    enabled: Annotated[bool, Meta(description="Compare losses, find who poisons, repair.")] = False


class ApiTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[api]`."""

    listen: Annotated[str, Meta(description="HOST:PORT of API and page, or none.")] = "127.0.0.1:8080"
    certificate: Annotated[str | None, Meta(description="PEM chain for the API; needed off loopback.")] = None
    key: Annotated[str | None, Meta(description="Its private key, if it is another file.")] = None
    device_broker: Annotated[
        str | None, Meta(description="mqtts://HOST:PORT of the broker as devices that claim reach it [broker].")
    ] = None
    metrics_open: Annotated[bool, Meta(description="Serve /metrics without a token.")] = False
    strict_transport: Annotated[
        bool, Meta(description="With TLS, have browsers use nothing else for this host's name, at any port (HSTS).")
    ] = ApiSettings.strict_transport
    connections: Annotated[
        int, Meta(ge=1, le=50_000, description="Most connections at one time; one with TLS costs 270 kB.")
    ] = ConnectionLimits.most
    connections_each: Annotated[
        int, Meta(ge=1, le=50_000, description="Most connections of one address, this machine's own not counted.")
    ] = ConnectionLimits.most_each


class StorageTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[storage]`."""

    database: Annotated[str | None, Meta(description="postgresql:// URL [SQLite in the state folder].")] = None
    blobs: Annotated[str | None, Meta(description="s3:// or other fsspec URL [a folder in the state folder].")] = None
    keep_models: Annotated[Annotated[int, Meta(ge=2)], Meta(description="Newest models kept.")] = 100
    keep_events: Annotated[Many, Meta(description="Newest events kept of each kind that devices make.")] = 100_000
    keep_audit: Annotated[
        float, Meta(ge=1, le=36_500, description="Days for which events of operators, detection and policy are kept.")
    ] = 400.0
    keep_hearing: Annotated[float, Meta(ge=1, le=365, description="Days for which reports of hearing are kept.")] = 35.0
    backups: Annotated[
        str | None, Meta(description="Folder for a backup every night, at 04:00 of this machine's clock [none].")
    ] = None
    keep_backups: Annotated[int, Meta(ge=1, le=1000, description="Newest of these backups kept.")] = 7
