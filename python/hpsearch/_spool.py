"""The spool: a file to which a thread appends what was logged, in whole lines."""

import enum
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

#: Seconds of writing that may wait in memory while the disk takes them: whoever logs more waits.
BACKLOG = 0.1

#: Seconds until a write that does not return delays nobody any more, and `close` leaves it.
PATIENCE = 5.0

#: The most records that are written at once, and about the most characters.
_BATCH = 1024
_BATCH_LENGTH = 1 << 20

#: Records that are serialised before other threads get their turn, unless a batch of them waits.
_TURN = 64

#: Bounds of how many records may wait: before it is known how fast they are written, and at least.
_FIRST_ROOM = 2 * _BATCH
_LEAST_ROOM = 8

_encoder = json.JSONEncoder(
    separators=(",", ":"), check_circular=False, default=str, ensure_ascii=False
)
_encode = _encoder.encode

Record = Tuple[int, Dict[str, Any]]


class Ending(enum.Enum):
    """What became of the end of a spool."""

    #: The file has all of it.
    WRITTEN = enum.auto()
    #: The disk did not take the rest.
    LOST = enum.auto()
    #: A write has not returned: the thread that waits for it writes the rest.
    WRITING = enum.auto()


class Spool:
    """One run's file of lines, and the thread that writes it.

    While the program lives, it holds the file's lock (`flock`).
    """

    def __init__(self, directory: str, id: str, header: Dict[str, Any]) -> None:
        os.makedirs(directory, exist_ok=True)
        self.path, self._descriptor = _create(directory, id)
        #: Records with their times in nanoseconds. Whoever logs appends to it while it has fewer
        #: than `room`, and otherwise asks `has_room`.
        self.queue: Deque[Record] = deque()
        #: How many records may wait: LONGEST_QUEUE while the disk takes none.
        self.room = _FIRST_ROOM
        #: How many lines of it are lost, once it has ended.
        self.lost = 0
        self._dropped = 0
        # What was serialised and is not in the file yet.
        self._header = header
        self._pending = _bytes(_encode(header) + "\n")
        self._identity = _identity(self._descriptor)
        # One thread writes at a time; the other is the one that closes.
        self._writing = threading.Lock()
        # The thread waits here for its next turn, and whoever logs for room. It may be taken again
        # by the thread that has it, as in a handler of a signal that logs.
        self._state = threading.Condition(threading.RLock())
        self._is_urgent = False
        self._waiting = 0
        self._is_over = threading.Event()
        # The last line of one that the thread must end, as `close` has left it.
        self._left: Optional[bytes] = None
        self._thread: Optional[threading.Thread] = None
        self._writer: Optional[Writer] = None
        self._try_again = 0.0
        self._write()

    def has_room(self) -> bool:
        """Waits until a record more may wait; `False` if the disk has not taken those that do."""
        until = time.monotonic() + PATIENCE
        with self._state:
            self._waiting += 1
            try:
                while len(self.queue) >= self.room and not self._is_over.is_set():
                    if self.room >= LONGEST_QUEUE:
                        return False
                    if not self._is_urgent:
                        self._is_urgent = True
                        self._state.notify_all()
                    if not self._state.wait(until - time.monotonic()):
                        # A write does not return, as on a server that is away.
                        self.room = LONGEST_QUEUE
            finally:
                self._waiting -= 1
        return True

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
        while not self._is_over.is_set():
            with self._state:
                if not self._is_urgent and not self._is_over.is_set():
                    self._state.wait(INTERVAL)
                self._is_urgent = False
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - the thread continues
                _messages.once("spool", f"the spool `{self.path}`: {error!r}")
        with self._writing:
            if self._left is not None:
                self._end(self._left)

    def _turn(self) -> None:
        if self._dropped:
            _messages.once(
                "dropped",
                f"`{self.path}` cannot be written, and {LONGEST_QUEUE} records are waiting: newer "
                "ones are dropped",
            )
        wrote = False
        with self._writing:
            # What is logged meanwhile is for the next turn.
            left = max(1, len(self.queue))
            while left > 0 and not self._is_over.is_set():
                count = self._write_batch()
                if count is None:
                    break
                wrote = True
                left -= count
        if self._writer is not None:
            self._writer.look(wrote)

    def _write_batch(self) -> Optional[int]:
        """Writes what is pending, or else the first records of the queue; returns how many these
        were, or `None` if there is nothing, or the disk does not take it."""
        begun, count, tells_rate = time.monotonic(), 0, False
        if not self._pending:
            count, tells_rate = self._serialise()
        wrote = self._write()
        if self._pending:
            self._make_room(LONGEST_QUEUE)
            return None
        if tells_rate:
            rate = count / max(time.monotonic() - begun, 1e-6)
            self._make_room(min(max(int(BACKLOG * rate), _LEAST_ROOM), LONGEST_QUEUE - 1))
        else:
            self._make_room(_FIRST_ROOM if self.room >= LONGEST_QUEUE else self.room)
        return count if wrote or count else None

    def _make_room(self, room: int) -> None:
        self.room = room
        if self._waiting:
            with self._state:
                self._state.notify_all()

    def _serialise(self) -> Tuple[int, bool]:
        """Takes a batch from the queue; returns how many records, and whether they are so many that
        the time they take tells how many may wait."""
        queue, lines = self.queue, []
        count = length = 0
        while queue and count < _BATCH and length < _BATCH_LENGTH:
            time_of, line = queue.popleft()
            count += 1
            try:
                text = f'{{"time":{time_of // 1000},"line":{_encode(line)}}}\n'
            except Exception as error:  # noqa: BLE001 - one record, not the others
                _messages.once("record", f"a record cannot be written as JSON: {error!r}")
                continue
            lines.append(text)
            length += len(text)
            if count % _TURN == 0 and len(queue) < _BATCH:
                # Whoever logs now and then does not wait until all is serialised. Whoever logs
                # without a pause would take every turn for a time slice of the interpreter.
                time.sleep(0)
        self._pending = _bytes("".join(lines))
        return count, count >= min(_BATCH, self.room // 2) or length >= _BATCH_LENGTH

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

    def close(self, last: Dict[str, Any]) -> Ending:
        """Writes the rest and the last line, however much that is."""
        line = _bytes(_encode(last) + "\n")
        self._stop()
        # The thread may stand in a write that does not return.
        if not self._writing.acquire(timeout=PATIENCE):
            self._left = line
            # It may have returned just now, and seen nothing to end.
            if not self._writing.acquire(timeout=0.1):
                return Ending.WRITING
        try:
            return Ending.LOST if self._end(line) else Ending.WRITTEN
        finally:
            self._left = None
            self._writing.release()

    def _end(self, line: bytes) -> int:
        """Writes the rest and this line, and closes the file; returns how many lines are lost."""
        self._try_again = 0.0
        while self._write_batch() is not None:
            pass
        if not self._pending:
            self._pending = line
            self._write()
        if self._has_descriptor():
            os.close(self._descriptor)
        self._descriptor = -1
        self.lost = len(self.queue) + self._pending.count(b"\n")
        return self.lost

    def _stop(self) -> None:
        self._is_over.set()
        with self._state:
            self._state.notify_all()

    def discard(self) -> None:
        """Removes the file, as nothing was logged."""
        self._stop()
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
        self._state = threading.Condition(threading.RLock())
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

    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o600)
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
