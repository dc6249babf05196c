"""Images, texts and tables as the protocol has them, with the standard library only."""

import json
import os
import struct
import zlib
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import _values

#: The longest text, in bytes of UTF-8; what follows is cut.
LONGEST_TEXT = 64 << 10

#: The most rows of a table, and the most bytes of its JSON.
MOST_ROWS = 10_000
LARGEST_TABLE = 256 << 10


def text(value: Any) -> Tuple[str, int]:
    """The text, as far as it is kept, and how many bytes it has."""
    whole = value if isinstance(value, str) else str(value)
    encoded = whole.encode("utf-8", "replace")
    return encoded[:LONGEST_TEXT].decode("utf-8", "ignore"), len(encoded)


def table(columns: Any, rows: Optional[Iterable[Any]]) -> Dict[str, Any]:
    """A table: of columns and rows, of a list of dictionaries, or of a pandas or polars DataFrame.

    Raises TypeError or ValueError for other values.
    """
    if rows is None:
        columns, rows = _of_frame(columns)
    names = [str(name) for name in columns]
    kept: List[List[Any]] = []
    for row in rows:
        if isinstance(row, Mapping):
            cells = [row.get(name) for name in columns]
        else:
            cells = list(row)
        if len(cells) != len(names):
            raise ValueError(f"row {len(kept)} has {len(cells)} cells, not {len(names)}")
        kept.append([_cell(cell) for cell in cells])
        if len(kept) > MOST_ROWS:
            raise ValueError(f"a table has at most {MOST_ROWS} rows")
    found = {"columns": names, "rows": kept}
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False)
    length = len(text.encode("utf-8", "replace"))
    if length > LARGEST_TABLE:
        raise ValueError(f"it takes {length} bytes, and at most {LARGEST_TABLE >> 10} KiB are kept")
    return found


def _of_frame(frame: Any) -> Tuple[List[Any], Iterable[Any]]:
    if isinstance(frame, (list, tuple)) and all(isinstance(row, Mapping) for row in frame):
        names = list(dict.fromkeys(name for row in frame for name in row))
        return names, frame
    columns = getattr(frame, "columns", None)
    if columns is None:
        raise TypeError("a table is columns and rows, a list of dictionaries, or a DataFrame")
    if hasattr(frame, "itertuples"):
        return list(columns), frame.itertuples(index=False, name=None)
    return list(columns), frame.iter_rows()


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    plain = _values.plain({"cell": value})["cell"] if not isinstance(value, Mapping) else str(value)
    return plain if isinstance(plain, (bool, int, float, str)) or plain is None else str(plain)


def write_png(image: Any, path: str) -> None:
    """Writes an image to a file: of PIL and matplotlib, or an array of numbers.

    An array has height, width and perhaps 1, 3 or 4 channels; integers are 0 to 255. Floats are
    0 to 1, or 0 to 255 if one of them is above 1, as W&B has it.

    Raises TypeError or ValueError if it is not an image.
    """
    for name in ("savefig", "save"):
        # A figure of matplotlib, an image of PIL.
        save = getattr(image, name, None)
        if callable(save):
            save(path, format="png")
            return
    width, channels, lines = _pixels(image)
    with open(path, "wb") as file:
        file.write(_png(width, channels, lines))


def _pixels(image: Any) -> Tuple[int, int, List[bytes]]:
    for name in ("detach", "cpu", "numpy"):
        # A tensor of PyTorch, wherever it lies.
        call = getattr(image, name, None)
        if callable(call):
            image = call()
    rows = image.tolist() if hasattr(image, "tolist") else image
    if not isinstance(rows, Sequence) or isinstance(rows, (str, bytes)) or not rows:
        raise TypeError("an image is a path, an image of PIL, or an array of height and width")
    lines: List[bytes] = []
    shape: Optional[Tuple[int, int]] = None
    is_float = any(isinstance(value, float) for value in _numbers(rows))
    is_unit = is_float and not any(value > 1.0 for value in _numbers(rows))
    scale = 255.0 if is_unit else 1.0
    for row in rows:
        if not isinstance(row, Sequence) or not row:
            raise ValueError("an image has two or three dimensions")
        channels = len(row[0]) if isinstance(row[0], Sequence) else 1
        if channels not in (1, 3, 4) and len(rows) in (1, 3, 4):
            raise ValueError(
                "its channels come first: transpose it to height, width and channels"
            )
        if channels not in (1, 3, 4) or shape not in (None, (len(row), channels)):
            raise ValueError("an image has rows of one length, and 1, 3 or 4 channels")
        shape = (len(row), channels)
        lines.append(bytes(_byte(value * scale) for value in _numbers(row)))
    width, channels = shape or (0, 1)
    if any(len(line) != width * channels for line in lines):
        raise ValueError("an image has two or three dimensions")
    return width, channels, lines


def _numbers(values: Any) -> Iterator[Any]:
    if isinstance(values, Sequence):
        for value in values:
            yield from _numbers(value)
    else:
        yield values


def _byte(value: float) -> int:
    # NaN is black, infinity white.
    return round(min(255, max(0, value))) if value == value else 0


def _png(width: int, channels: int, lines: List[bytes]) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    colour = {1: 0, 3: 2, 4: 6}[channels]
    header = struct.pack(">IIBBBBB", width, len(lines), 8, colour, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + line for line in lines), 6)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def is_path(image: Any) -> bool:
    """Whether an image is given by its path."""
    return isinstance(image, (str, os.PathLike))
