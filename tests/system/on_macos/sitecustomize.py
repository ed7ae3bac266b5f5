"""Hides from every Python started with this folder on PYTHONPATH what Linux has and macOS has not.

The standard library and what loads shared libraries chose theirs before, by the system that there is; what Auricle
imports and calls afterwards finds no epoll, no /proc and no name that macOS does not know. The children that speak with
espeak-ng are left as they are, since their library is chosen when it is loaded.
"""

import builtins
import contextlib
import errno
import fcntl
import importlib
import io
import os
import platform
import resource
import select
import selectors
import signal
import socket
import sys
import sysconfig
import time

GONE = {
    os: "memfd_create pipe2 posix_fadvise posix_fallocate POSIX_FADV sched_ SCHED_ eventfd EFD_ splice SPLICE "
    "getrandom GRND_ copy_file_range fdatasync O_DIRECT O_TMPFILE O_PATH O_NOATIME pidfd getxattr setxattr "
    "listxattr removexattr XATTR getresuid getresgid setresuid setresgid unshare setns CLONE_ RWF_",
    select: "epoll EPOLL",
    fcntl: "F_SETPIPE_SZ F_GETPIPE_SZ F_OFD F_ADD_SEALS F_GET_SEALS F_SEAL F_NOTIFY DN_ F_SETSIG F_GETSIG F_SETLEASE",
    resource: "prlimit RLIMIT_NICE RLIMIT_RT RLIMIT_SIGPENDING RLIMIT_MSGQUEUE RLIMIT_OFILE RUSAGE_THREAD",
    signal: "pidfd_send_signal sigtimedwait sigwaitinfo SIGRTM SIGPWR SIGSTKFLT SIGCLD SIGPOLL",
    socket: "SOCK_CLOEXEC SOCK_NONBLOCK TCP_USER_TIMEOUT TCP_KEEPIDLE TCP_DEFER_ACCEPT TCP_QUICKACK TCP_CORK SO_MARK "
    "SO_PEERCRED SO_PRIORITY SO_BINDTODEVICE SO_DOMAIN SO_PROTOCOL SO_PEERSEC SO_PASSCRED SCM_CREDENTIALS AF_NETLINK "
    "NETLINK AF_PACKET PACKET_ AF_ALG ALG_ AF_VSOCK AF_CAN CAN_ AF_TIPC TIPC_",
    errno: "ENOMEDIUM EMEDIUMTYPE ENOKEY EKEY EREMOTEIO EUNATCH EBADE EXFULL ENOTUNIQ ELIB ESTRPIPE",
    time: "CLOCK_BOOTTIME CLOCK_TAI pthread_getcpuclockid",
}  # by module, how names begin that macOS has not

FIRST = """
asyncio concurrent.futures ctypes.util http.server importlib.metadata mimetypes multiprocessing pathlib queue shutil
socketserver sqlite3 ssl subprocess tempfile threading urllib.request uuid webbrowser zoneinfo
numpy onnxruntime soundfile sounddevice
"""  # chosen by the system when they are imported, so imported before
UNREADABLE = ("/proc", "/sys", "/dev/shm")


def hide() -> None:
    selectors.DefaultSelector = selectors.PollSelector
    for name in FIRST.split():
        with contextlib.suppress(ImportError, OSError):
            importlib.import_module(name)
    sysconfig.get_config_vars()
    for module, starts in GONE.items():
        for name in [name for name in dir(module) if name.startswith(tuple(starts.split()))]:
            delattr(module, name)
    for module, names in (
        (builtins, ("open",)),
        (io, ("open",)),
        (os, ("open", "stat", "lstat", "listdir", "scandir", "readlink", "access")),
    ):
        for name in names:
            setattr(module, name, _refusing(getattr(module, name)))
    sys.platform = "darwin"
    machine = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
    platform.system = lambda: "Darwin"
    platform.machine = lambda: machine


def _refusing(function):
    def call(path=".", *arguments, **named):
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(UNREADABLE):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", os.fspath(path))
        return function(path, *arguments, **named)

    return call


if not any("espeak" in argument for argument in sys.orig_argv):
    hide()
