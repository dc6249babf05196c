"""Copies of files that the program may change as soon as the call that names them returns."""

import contextlib
import errno
import os
import re
import shutil
import stat
from typing import List, Optional, Tuple

#: Files and directories above this size are not copied unless that is asked for: 1 GiB.
COPIED_UP_TO = 1 << 30

#: The most files of a directory.
MOST_FILES = 10_000

#: The names of what the client makes for lines.
_OWN = re.compile(r"\.artifact-[0-9a-f]{12}|\.image-[0-9a-f]{12}\.png")

#: Bytes that the kernel copies at a time.
_PIECE = 1 << 28


def copied(path: str, directory: str, is_large_allowed: bool) -> Optional[str]:
    """Copies a file or a directory into `directory`, which is made; returns the path of the copy.

    `None` if it is not copied: it is too large, is not there, or is nothing that can be kept.
    Whoever reads the line examines the path, and says so.

    Raises OSError if it cannot be read or copied.
    """
    files = _files(path)
    if files is None:
        return None
    size = sum(os.stat(source).st_size for _, source in files)
    if size > COPIED_UP_TO and not is_large_allowed:
        return None
    os.makedirs(directory, 0o700, exist_ok=True)
    free = shutil.disk_usage(directory).free
    if size > free // 2:
        # The store needs room, too.
        raise OSError(errno.ENOSPC, f"it has {size} bytes, and only {free} are free")
    copy = os.path.join(directory, f".artifact-{os.urandom(6).hex()}")
    try:
        if os.path.isdir(path):
            os.mkdir(copy)
        for below, source in files:
            target = os.path.join(copy, below) if below else copy
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _copy(source, target)
    except BaseException:
        remove(copy)
        raise
    return copy


def remove(copy: str) -> None:
    """Removes a copy that no line names."""
    with contextlib.suppress(OSError):
        if os.path.isdir(copy):
            shutil.rmtree(copy)
        else:
            os.remove(copy)


def _files(path: str) -> Optional[List[Tuple[str, str]]]:
    """The files of a file or directory: their paths below it, and where they are.

    `None` if it holds what cannot be kept.
    """
    if os.path.isfile(path):
        return [("", path)]
    if not os.path.isdir(path):
        return None
    files: List[Tuple[str, str]] = []
    directories = [""]
    above = os.path.join(os.path.realpath(path), "")
    while directories:
        directory = directories.pop()
        with os.scandir(os.path.join(path, directory)) as entries:
            for entry in entries:
                if _OWN.fullmatch(entry.name):
                    continue
                below = os.path.join(directory, entry.name)
                if entry.is_symlink():
                    real = os.path.realpath(entry.path)
                    if not real.startswith(above) or not os.path.isfile(real):
                        return None
                    files.append((below, real))
                elif entry.is_dir():
                    directories.append(below)
                elif entry.is_file():
                    files.append((below, entry.path))
                else:
                    return None
                if len(files) + len(directories) > MOST_FILES or not _is_text(entry.name):
                    return None
    return files


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _copy(source: str, target: str) -> None:
    """Copies a file. Where the file system can, the copy shares its blocks.

    Raises OSError, also if the file is written to meanwhile.
    """
    # What has become a pipe since is not waited for.
    descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, "rb", buffering=0) as read, open(target, "xb", buffering=0) as written:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "it is not a file", source)
        with contextlib.suppress(AttributeError, OSError):
            # Not on every system, nor between all file systems.
            while os.copy_file_range(descriptor, written.fileno(), _PIECE):
                pass
        shutil.copyfileobj(read, written, 1 << 20)
        after = os.fstat(descriptor)
        length = os.fstat(written.fileno()).st_size
    is_same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    if not is_same or length != after.st_size:
        raise OSError(errno.EBUSY, "it was written to while it was copied", source)
