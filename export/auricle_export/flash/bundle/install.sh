#!/bin/sh
# Installs this bundle; the same one again changes nothing: sh install [--root DIR]
# Needs Python @PYTHON@ as the system brings it, and no network.
set -eu
wanted=@PYTHON@
dir=$(cd -- "$(dirname -- "$0")" && pwd)
if [ "$#" = 0 ] && [ "$(id -u)" != 0 ]; then
  echo "auricle: run this as root: sudo sh $0" >&2
  exit 2
fi
found=
for python in "/usr/bin/python$wanted" "python$wanted" python3; do
  command -v "$python" >/dev/null 2>&1 || continue
  has=$("$python" -I -c 'import struct, sys; print("%d.%d %d" % (*sys.version_info[:2], 8 * struct.calcsize("P")))') || continue
  case $has in
    "$wanted 64") exec "$python" -I "$dir/slots.py" install "$dir" "$@" ;;
    "$wanted 32") found=" of 64 bits, and this is a 32-bit system: use the 64-bit image"; break ;;
    *) found=", and this system has ${has% *}: make the bundle for this system (auricle flash bundle --os)" ;;
  esac
done
echo "auricle: this bundle needs Python $wanted${found:-, and there is none: apt install python3}." >&2
exit 2
