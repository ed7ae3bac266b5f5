"""`auricle cloud devices`: who may take part."""

from __future__ import annotations

from typing import Annotated

import typer

from auricle.errors import SettingsError
from auricle_cloud.commands.operator_command import (
    Device,
    Devices,
    MaybeDevice,
    Reason,
    Yes,
    complete_device,
    confirm,
    operator_command,
)
from auricle_cloud.operations.device_answers import Changed, DeviceDetail, DeviceLog, DevicePage, DeviceRow, Tuned
from auricle_cloud.operations.hearing_operations import HearingDetail, HearingPage
from auricle_cloud.operations.operations import Operations
from auricle_cloud.operations.types import Done
from auricle_cloud.storage.rows import Standing

app = typer.Typer(no_args_is_help=True, help="See devices, and say which may take part.")

Limit = Annotated[int, typer.Option(help="Most rows to show.")]
MaybeDevices = Annotated[
    list[str] | None, typer.Argument(metavar="[DEVICE]...", help="Their names.", autocompletion=complete_device)
]
All = Annotated[bool, typer.Option("--all", help="All that wait for approval.")]


@operator_command(app, "list")
def list_(
    do: Operations,
    limit: Limit = 100,
    after: Annotated[str | None, typer.Option(help="Continue after this one.")] = None,
    standing: Annotated[Standing | None, typer.Option(help="Only those of this standing.")] = None,
    online: Annotated[bool | None, typer.Option("--online/--offline", help="Only those online, or offline.")] = None,
    label: Annotated[
        str | None, typer.Option(help='Only those with exactly this label; "" for those without one.')
    ] = None,
    search: Annotated[str | None, typer.Option(help="Only those with this in their name or label.")] = None,
) -> DevicePage:
    """List devices by name."""
    return do.list_devices(limit, after, standing, online, label, search)


@operator_command(app, "show")
def show(
    do: Operations,
    device: Device,
    limit: Limit = 20,
    before: Annotated[int | None, typer.Option(help="Continue before this round.")] = None,
) -> DeviceDetail:
    """Show a device, its rounds, its refused frames and its events."""
    return do.show_device(device, limit, before)


@operator_command(app, "logs")
def logs(
    do: Operations,
    device: Device,
    limit: Limit = 100,
    before: Annotated[int | None, typer.Option(help="Continue before this event.")] = None,
) -> DeviceLog:
    """Show events and refused frames of a device."""
    return do.device_logs(device, limit, before)


@operator_command(app, "hearing")
def hearing(
    do: Operations,
    device: MaybeDevice = None,
    days: Annotated[float, typer.Option(help="Days that this is about, to now.")] = 7.0,
    limit: Limit = 100,
    after: Annotated[str | None, typer.Option(help="Continue after this device.")] = None,
    before: Annotated[int | None, typer.Option(help="Of one device: go on before this report.")] = None,
) -> HearingPage | HearingDetail:
    """Show how well devices hear, by their own reports, or the reports of one."""
    if device is None:
        return do.show_hearing(days, limit, after)
    return do.device_hearing(device, days, limit, before)


@operator_command(app, "label")
def label(
    do: Operations, device: Device, text: Annotated[str, typer.Argument(metavar="LABEL", help="A name for people.")]
) -> DeviceRow:
    """Give a device a name for people."""
    return do.label_device(device, text)


@operator_command(app, "sensitivity")
def sensitivity(
    do: Operations,
    devices: MaybeDevices = None,
    step: Annotated[int, typer.Option(min=-2, max=2, help="Above 0: hear more, also wrongly; below: less.")] = 0,
    label: Annotated[str | None, typer.Option(help="All that have exactly this label now.")] = None,
    reason: Reason = "",
) -> Tuned:
    """Make devices hear more or less, by steps of 0.05 in their thresholds; 0 takes it back."""
    if bool(devices) == (label is not None):
        raise SettingsError("Name the devices, or --label of those that are meant.")
    return do.set_sensitivity(step, devices or None, label, reason)


@operator_command(app, "approve")
def approve(do: Operations, devices: MaybeDevices = None, every: All = False, reason: Reason = "") -> Changed:
    """Let devices that wait for approval take part."""
    if bool(devices) == every:
        raise SettingsError("Name the devices to approve, or --all of those that wait.")
    if not every:
        return do.approve_devices(devices or [], reason)
    changed: list[str] = []
    while waiting := [row.device for row in do.list_devices(1000, standing="pending").devices]:
        changed += do.approve_devices(waiting, reason).devices
    return Changed(devices=changed, standing="approved")


@operator_command(app, "quarantine")
def quarantine(do: Operations, devices: Devices, reason: Reason = "", yes: Yes = False) -> Changed:
    """Keep devices out of rounds until they are released."""
    _require(do, devices)
    confirm(f"Quarantine {', '.join(devices)}?", yes=yes)
    return do.quarantine_devices(devices, reason)


@operator_command(app, "release")
def release(do: Operations, devices: Devices, reason: Reason = "") -> Changed:
    """Let quarantined devices take part again."""
    return do.release_devices(devices, reason)


@operator_command(app, "revoke")
def revoke(do: Operations, devices: Devices, reason: Reason = "", yes: Yes = False) -> Changed:
    """Never trust devices' keys again; this cannot be undone."""
    _require(do, devices)
    confirm(f"Revoke {', '.join(devices)} for good?", yes=yes)
    return do.revoke_devices(devices, reason)


@operator_command(app, "forget")
def forget(do: Operations, device: Device, reason: Reason = "", yes: Yes = False) -> Done:
    """Forget a device that has left; rounds that it was in stay as they were."""
    _require(do, [device])
    confirm(f"Forget {device}?", yes=yes)
    return do.forget_device(device, reason)


def _require(do: Operations, devices: list[str]) -> None:
    """Refuse names of no device before anybody is asked about them."""
    for device in devices:
        do.show_device(device, 1)
