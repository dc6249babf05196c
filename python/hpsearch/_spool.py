"""The spool: a file to which a thread appends what was logged, in whole lines."""

import errno
import json
import os
import threading
import time
from collections import deque
from typing import Any, Deque, Dict, Optional, Tuple

from . import _messages
from ._writer import Writer

#: Poll interval of the queue in seconds.
INTERVAL = 0.2

#: Seconds until a write that failed is tried again.
PAUSE = 1.0

#: The most records that wait in memory while the disk does not take them.
LONGEST_QUEUE = 1_000_000

#: Records that are serialised before other threads get their turn.
_TURN = 64

_encoder = json.JSONEncoder(
    separators=(",", ":"), check_circular=False, default=str, ensure_ascii=False
)
_encode = _encoder.encode

Record = Tuple[int, Dict[str, Any]]


class Spool:
    """One run's file of lines, and the thread that writes it.

    While the program lives, it holds the file's lock (`flock`).
    """

    def __init__(self, directory: str, id: str, header: Dict[str, Any]) -> None:
        os.makedirs(directory, exist_ok=True)
        self.path, self._descriptor = _create(directory, id)
        #: Records with their times in nanoseconds. Whoever logs appends to it while it has fewer
        #: than LONGEST_QUEUE.
        self.queue: Deque[Record] = deque()
        self._dropped = 0
        # What was serialised and is not in the file yet.
        self._header = header
        self._pending = _bytes(_encode(header) + "\n")
        self._identity = _identity(self._descriptor)
        # One thread writes at a time; the other is the one that closes.
        self._writing = threading.Lock()
        self._is_over = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._writer: Optional[Writer] = None
        self._try_again = 0.0
        self._write()

    def drop(self) -> None:
        """Counts a record that is dropped, as the disk has not taken those that wait."""
        self._dropped += 1

    def start(self, writer: Writer) -> None:
        """Starts the thread that writes the file and looks after the writer."""
        self._writer = writer
        writer.start()
        self._thread = threading.Thread(target=self._run, name="hpsearch-spool", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(INTERVAL):
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - the thread continues
                _messages.once("spool", f"the spool `{self.path}`: {error!r}")

    def _turn(self) -> None:
        if self._dropped:
            _messages.once(
                "dropped",
                f"`{self.path}` takes nothing, and {LONGEST_QUEUE} records wait: newer ones are "
                "dropped",
            )
        with self._writing:
            if self._is_over.is_set():
                return
            self._serialise()
            wrote = self._write()
        if self._writer is not None:
            self._writer.look(wrote)

    def _serialise(self) -> None:
        queue, lines = self.queue, []
        for count in range(1, len(queue) + 1):
            time_of, line = queue.popleft()
            try:
                lines.append(f'{{"time":{time_of // 1000},"line":{_encode(line)}}}\n')
            except Exception as error:  # noqa: BLE001 - one record, not the others
                _messages.once("record", f"a record cannot be written as JSON: {error!r}")
            if count % _TURN == 0:
                # Whoever logs does not wait until all is serialised.
                time.sleep(0)
        if lines:
            self._pending += _bytes("".join(lines))

    def _write(self) -> bool:
        """Writes pending records; returns whether there were any."""
        if not self._pending or time.monotonic() < self._try_again:
            return False
        wrote = False
        try:
            self._find_again()
            while self._pending:
                count = os.write(self._descriptor, self._pending)
                # A partially written line is continued.
                self._pending = self._pending[count:]
                wrote = True
        except OSError as error:
            self._try_again = time.monotonic() + PAUSE
            _messages.once(
                f"write {error.errno}",
                f"`{self.path}` cannot be written ({os.strerror(error.errno or errno.EIO)}): "
                "what is logged waits in memory, and is tried again",
            )
        return wrote

    def _find_again(self) -> None:
        """Recreates the file if it was removed or its descriptor was closed.

        Raises OSError if that is not possible now.
        """
        has_descriptor = self._has_descriptor()
        if has_descriptor and _is_at(self.path, self._identity):
            return
        directory, name = os.path.split(self.path)
        os.makedirs(directory, exist_ok=True)
        if has_descriptor:
            # Removed with its directory: what was in it is still to be read.
            path, descriptor = self.path, _open(self.path)
            written = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
            self._pending = written + self._pending
            os.close(self._descriptor)
            _messages.once("removed", f"`{path}` was removed while the run logs: it is recreated")
        else:
            # A program that closes descriptors that are not its own. The writer took that for its
            # end: the run continues in another file.
            path, descriptor = _create(directory, str(self._header["id"]))
            run = self._header["resume"] or self._header["id"]
            header = {**self._header, "resume": run, "known": "allow"}
            self._pending = _bytes(_encode(header) + "\n") + self._pending
            _messages.once("closed", "the program closed the descriptors of hpsearch: new ones are made")
            if self._writer is not None:
                self._writer.follow(path)
        self.path, self._descriptor = path, descriptor
        self._identity = _identity(descriptor)

    def _has_descriptor(self) -> bool:
        """Whether the descriptor is still the spool, and no file that the program opened since."""
        try:
            return _identity(self._descriptor) == self._identity
        except OSError:
            return False

    def close(self, last: Dict[str, Any]) -> bool:
        """Writes the rest and the last line; whether the file has all of it."""
        self._is_over.set()
        # The thread may stand in a write that does not return.
        if not self._writing.acquire(timeout=2.0):
            return False
        try:
            self._serialise()
            self._pending += _bytes(_encode(last) + "\n")
            self._try_again = 0.0
            self._write()
            stored = not self._pending
            if self._has_descriptor():
                os.close(self._descriptor)
            self._descriptor = -1
            return stored
        finally:
            self._writing.release()

    def discard(self) -> None:
        """Removes the file, as nothing was logged."""
        self._is_over.set()
        with self._writing:
            self.abandon()
            try:
                os.remove(self.path)
            except OSError:
                # The next run finds a run without a record.
                pass

    def abandon(self) -> None:
        """Closes the file in a forked child, to which nothing here belongs."""
        self._is_over = threading.Event()
        self._is_over.set()
        self.queue.clear()
        self._pending = b""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


Identity = Tuple[int, int]


def _identity(descriptor: int) -> Identity:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _is_at(path: str, identity: Identity) -> bool:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == identity


def _bytes(text: str) -> bytes:
    # Half a character, as in names of files that are no text, is a question mark.
    return text.encode("utf-8", "replace")


def _open(path: str) -> int:
    """Makes the file, and takes its lock.

    Raises FileExistsError if there is one.
    """
    import fcntl

    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o666)
    if descriptor < 3:
        # The program has closed standard streams: what it prints must not end here.
        low, descriptor = descriptor, fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
        os.close(low)
    try:
        # The kernel frees it when the program dies, however it dies.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        # A file system without locks: the writer knows by its pipe.
        pass
    return descriptor


def _create(directory: str, id: str) -> Tuple[str, int]:
    for _ in range(100):
        # A run that is continued has a spool for each time.
        path = os.path.join(directory, f"{_file_name(id)}.{os.urandom(4).hex()}.jsonl")
        try:
            return path, _open(path)
        except FileExistsError:
            continue
    raise FileExistsError(errno.EEXIST, "no name is free", directory)


def _file_name(id: str) -> str:
    """The id with nothing in it that a path would take for something else."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in id)
    return kept[:64] or "run"
