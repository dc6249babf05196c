"""What programs log as plain numbers, and their configurations as plain data."""

import contextlib
import json
import operator
from typing import Any, Dict, Mapping, Optional, Set, Tuple

from . import _messages

#: Keys of the protocol's lines that are no metrics.
RESERVED = frozenset(("checkpoint", "params", "summary", "text", "artifact"))

#: The largest step that hpsearch counts: beyond it a float knows no integers.
LARGEST_STEP = 2**53

#: The largest seed that a store has.
LARGEST_SEED = 2**63 - 1

#: Names that were found to be fit for metrics.
_names: Set[str] = set()
_MOST_NAMES = 100_000

#: Whether all names were found to be fit.
are_known = _names.issuperset

#: Whether all types are Python's own of real numbers.
are_floats = frozenset((float,)).issuperset

#: How deep nested dictionaries are read.
_DEPTH = 8


def direction(word: Any) -> str:
    """`"minimize"` or `"maximize"`, of which `"min"` and `"max"` are short forms."""
    long = {"min": "minimize", "max": "maximize"}.get(word, word) if isinstance(word, str) else word
    if long not in ("minimize", "maximize"):
        raise ValueError(f'`direction` must be "minimize" or "maximize", not {word!r}')
    return str(long)


def is_number(value: Any) -> bool:
    """Whether it is a number of Python's own, and no boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def metrics(values: Mapping[str, Any]) -> Dict[str, float]:
    """The numbers among `values`; others are dropped, with one message for each name.

    Nested dictionaries are flattened: `{"train": {"loss": 1}}` is `train/loss`.
    """
    found: Dict[str, float] = {}
    for name, value in values.items():
        kind = type(value)
        if kind is float and type(name) is str and _is_free(name):
            found[name] = value
            if len(_names) < _MOST_NAMES:
                _names.add(name)
        else:
            _take(found, name, value, _DEPTH)
    return found


def _is_free(name: str) -> bool:
    return name not in RESERVED and not name.startswith("hpsearch_")


def _take(found: Dict[str, float], name: Any, value: Any, depth: int) -> None:
    name = name if type(name) is str else str(name)
    if isinstance(value, Mapping) and depth > 0:
        for inner, below in value.items():
            _take(found, f"{name}/{inner}", below, depth - 1)
        return
    if not _is_free(name):
        _messages.once(
            f"reserved {name}", f"`{name}` cannot be the name of a metric: it is not logged"
        )
        return
    number = as_number(value)
    if number is None:
        _messages.once(
            f"number {name}",
            f"`{name}` must be a number, not {_shown(value)}: such values are not logged"
            f"{_instead(value)}",
        )
    else:
        found[name] = number


def _instead(value: Any) -> str:
    """What keeps such a value, for a message."""
    if isinstance(value, (str, bytes)):
        method = "text(name, text)"
    elif hasattr(value, "savefig") or type(value).__module__.partition(".")[0] == "PIL":
        method = "image(name, image)"
    elif hasattr(value, "columns") or _is_rows(value):
        method = "table(name, rows)"
    elif getattr(value, "ndim", 0) in (2, 3):
        method = "image(name, array)` or, of numbers, `run.table(name, columns, rows)"
    else:
        return ""
    return f"; `run.{method}` keeps one"


def _is_rows(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Mapping)


def as_number(value: Any) -> Optional[float]:
    """The value as a float: of Python, NumPy, PyTorch, JAX and TensorFlow scalars."""
    if value is None or isinstance(value, (str, bytes, bytearray, complex)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
    except Exception:  # noqa: BLE001 - whatever a foreign type raises, it is not a number
        pass
    try:
        # An array of one element, as of NumPy 2.
        return float(value.item())
    except Exception:  # noqa: BLE001 - as above
        return None


def as_step(step: Any) -> Optional[int]:
    """The step as an integer; `None` with one message where it is none."""
    try:
        whole = operator.index(step)
    except TypeError:
        number = as_number(step)
        if number is None or not number.is_integer():
            whole = -1
        else:
            whole = int(number)
    if 0 <= whole <= LARGEST_STEP:
        return whole
    _messages.once(
        "step",
        f"`step` must be an integer of at least 0, not {_shown(step)}: "
        "what is logged with such steps is dropped",
    )
    return None


def seed(value: Any) -> int:
    """A seed as an integer of Python; NumPy's integers are taken, too.

    Raises TypeError or ValueError if it is not one that is stored exactly.
    """
    whole: Optional[int] = None
    with contextlib.suppress(TypeError):
        whole = operator.index(value)
    if whole is None or not 0 <= whole <= LARGEST_SEED:
        kind = TypeError if whole is None else ValueError
        raise kind(
            f"`seed` must be an integer from 0 to {LARGEST_SEED} (2^63 - 1), not {_shown(value)}"
        )
    return whole


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a foreign type's own mistake
        text = f"a {type(value).__name__}"
    return f"`{text if len(text) <= 60 else text[:60] + '..'}`"


def configuration(config: Any) -> Dict[str, Any]:
    """A configuration as a dictionary: of a mapping, `argparse.Namespace`, or dataclass."""
    if config is None:
        return {}
    mapping = _mapping(config)
    if mapping is not None:
        return dict(mapping)
    to_dict = getattr(config, "to_dict", None)
    if callable(to_dict):
        return dict(to_dict())
    if hasattr(config, "__dict__") and not isinstance(config, type):
        return dict(vars(config))
    raise TypeError(
        f"`config` must be a dictionary, an argparse.Namespace or a dataclass, "
        f"not a {type(config).__name__}"
    )


def _mapping(value: Any) -> Optional[Mapping[Any, Any]]:
    """Its names and values: of a mapping, a dataclass, or `argparse.Namespace`; else None."""
    if isinstance(value, Mapping):
        return value
    fields = getattr(type(value), "__dataclass_fields__", None)
    if fields is not None:
        return {name: getattr(value, name, None) for name in fields}
    return vars(value) if type(value).__name__ in ("Namespace", "SimpleNamespace") else None


def plain(values: Mapping[str, Any]) -> Dict[str, Any]:
    """Flat JSON data: nested names are joined with dots, and what JSON does not know is text."""
    flat: Dict[str, Any] = {}
    for name, value in values.items():
        for key, leaf in _leaves(str(name), value, _DEPTH):
            flat[key] = leaf
    return flat


def _leaves(name: str, value: Any, depth: int) -> Tuple[Tuple[str, Any], ...]:
    mapping = _mapping(value)
    if mapping and depth > 0:
        return tuple(
            leaf
            for inner, below in mapping.items()
            for leaf in _leaves(f"{name}.{inner}", below, depth - 1)
        )
    if _has_mapping(value, depth):
        # The store's lists have no objects: they are kept as JSON.
        return ((name, json.dumps(_json(value, depth), ensure_ascii=False)),)
    return ((name, _json(value, depth)),)


def _has_mapping(value: Any, depth: int) -> bool:
    if not isinstance(value, (list, tuple)) or depth == 0:
        return False
    return any(_mapping(item) is not None or _has_mapping(item, depth - 1) for item in value)


def _short(value: int) -> str:
    try:
        return str(value)
    except ValueError:
        # Python 3.11 writes no more than 4,300 digits.
        return hex(value)


def _json(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        # Subclasses, such as enumerations and NumPy's float64, as their values.
        if not isinstance(value, int):
            return float(value)
        # Larger ones are no numbers to the store.
        return int(value) if -(2**63) <= value < 2**64 else _short(value)
    if isinstance(value, (list, tuple)) and depth > 0:
        return [_json(item, depth - 1) for item in value]
    mapping = _mapping(value)
    if mapping and depth > 0:
        return {str(name): _json(item, depth - 1) for name, item in mapping.items()}
    if hasattr(value, "item"):
        try:
            if type(value).__name__ in ("float16", "float32"):
                # NumPy writes as many digits as tell its value apart: 0.1, not 0.10000000149011612.
                return float(str(value))
            return _json(value.item(), 0)
        except Exception:  # noqa: BLE001 - an array: as text
            pass
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a foreign type's own mistake
        return type(value).__name__
