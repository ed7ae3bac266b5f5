#!/bin/sh
# First boot of an Auricle card. `arm` makes systemd run this at every boot until it is done, `arm now` also at this one;
# `run` installs the bundle, without a network, and then fetches the packages that the microphone needs.
# Power may be cut at any line: what was begun is begun again. The boot partition may be read-only.
set -eu
umask 022

here=$(cd "$(dirname "$0")" && pwd)
root=${AURICLE_ROOT:-}
state=$root/var/lib/auricle-firstboot
units=$root/etc/systemd/system
unit=auricle-firstboot.service

say() {
    echo "auricle: $*"
    # Without a network there is a line a minute for ever: the card keeps the first 64 KiB.
    log=$here/first-boot.log
    { [ "$(wc -c <"$log" || echo 0)" -lt 65536 ] && echo "$(date -u +%FT%TZ) $*" >>"$log"; } 2>/dev/null || :
}

mark() {
    sync
    : >"$state/$1"
    sync
}

live() {
    [ -z "$root" ] && [ -d /run/systemd/system ]
}

arm() {
    [ ! -e "$state/done" ] || return 0
    mkdir -p "$units/multi-user.target.wants"
    cat >"$units/$unit.new" <<UNIT
[Unit]
Description=Auricle: installation at the first boot
RequiresMountsFor=$here
ConditionPathExists=!/var/lib/auricle-firstboot/done
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=/bin/sh "$here/first-boot.sh" run
Restart=on-failure
RestartSec=60
TimeoutStartSec=infinity
StandardOutput=journal+console

[Install]
WantedBy=multi-user.target
UNIT
    if cmp -s "$units/$unit.new" "$units/$unit"; then
        rm -f "$units/$unit.new"
    else
        sync
        mv "$units/$unit.new" "$units/$unit"
        ! live || systemctl daemon-reload
    fi
    ln -sf "../$unit" "$units/multi-user.target.wants/$unit"
    sync
    if [ "${1:-}" = now ] && live; then
        systemctl start --no-block "$unit"
    fi
}

install_bundle() {
    read -r sum bundle <"$here/bundle.sha256"
    case $bundle in
    /*) bundle=$root$bundle ;;
    *) bundle=$here/$bundle ;;
    esac
    say "checks $bundle"
    echo "$sum  $bundle" | sha256sum -c --quiet - || {
        say "the bundle on this card is damaged: write the card again"
        return 1
    }
    rm -rf "$state/unpacked"
    mkdir -p "$state/unpacked"
    tar -xf "$bundle" -C "$state/unpacked" --no-same-owner --no-same-permissions
    say "installs it"
    sh "$state/unpacked/install" ${root:+--root "$root"} || {
        say "the installation did not succeed: it is tried again; journalctl -u $unit says why"
        return 1
    }
    mark installed
    rm -rf "$state/unpacked"
    rm -f "$bundle" 2>/dev/null || :
    say "installed"
}

fetch_packages() {
    [ -z "$root" ] || return 0
    missing=
    while read -r package; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done <"$here/packages"
    [ -n "$missing" ] || return 0
    say "fetches$missing"
    export DEBIAN_FRONTEND=noninteractive
    # The names are those of a checked profile; each is one word.
    # shellcheck disable=SC2086
    if ! { apt-get -q -o DPkg::Lock::Timeout=300 update &&
        apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 install $missing; }; then
        say "could not fetch$missing: no network yet? It is tried again every minute; the agent is installed"
        return 1
    fi
}

run() {
    mkdir -p "$state"
    [ -e "$state/installed" ] || install_bundle
    fetch_packages
    mark "done"
    rm -f "$units/multi-user.target.wants/$unit" "$units/$unit"
    say "done"
}

case ${1:-} in
arm) arm "${2:-}" ;;
run) run ;;
*)
    echo "usage: $0 arm [now] | run" >&2
    exit 2
    ;;
esac
