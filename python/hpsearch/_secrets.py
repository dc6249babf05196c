"""Secrets among parameters and in command lines, by their names, as `hpsearch track` masks them."""

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

#: What stands for a secret.
REDACTED = "***"

#: Words for a password: at the end of a name, short numbers are secrets, too.
_PASSWORDS = frozenset(
    ("password", "passwd", "pwd", "passphrase", "passcode", "secret", "credential", "credentials")
)

#: Words in a name whose value is a secret.
_WORDS = _PASSWORDS | frozenset(
    ("apikey", "accesskey", "auth", "authorization", "bearer", "jwt", "pat")
)

#: The most digits of a number that is no secret: more may be an account's.
_MOST_DIGITS = 9

#: Words before `key`, which together are the name of a secret.
_KEYS = frozenset(("api", "access", "private", "secret", "auth"))

#: Words before `token`: tokens of a text, no credentials.
_TEXT = frozenset(("pad", "eos", "bos", "unk", "sep", "cls", "mask", "special"))

_ASSIGNMENT = re.compile(r"\+*([^\W\d][\w.\-@/]*)=")

# The last `@` before the path is the one before the host.
_PASSWORD = re.compile(r"(://[^/?#:]*:)[^/?#]*(@)")

# The client of PostgreSQL takes what is before the last `@` of all for the password.
_POSTGRES = re.compile(r"(postgres(?:ql)?://[^/?#:@]*:).*(@)", re.DOTALL)

# `Authorization: Bearer ..`, `X-Api-Key: ..`, `Bearer ..`, also after `--header=` and `-H`.
_HEADER = re.compile(r"(?:[^ \t\n\f\r:=]*=)*([A-Za-z0-9_-]+):\s*(?=\S)(?!//)")
_BEARER = re.compile(r"(?:[^ \t\n\f\r:=]*=)*-{0,2}bearer[ \t\n\f\r]", re.IGNORECASE)
_LETTER = re.compile(r"--?[^\W\d]")


def is_secret(name: str) -> bool:
    """Whether a parameter or an option of this name has a secret value."""
    parts = _parts(name)
    is_token = parts[-1] == "token" and not (len(parts) > 1 and parts[-2] in _TEXT)
    is_key = any(after == "key" and before in _KEYS for before, after in zip(parts, parts[1:]))
    return is_token or is_key or not _WORDS.isdisjoint(parts)


def is_secret_value(name: str, value: Any) -> bool:
    """Whether a value is a secret under this name.

    None, booleans and short numbers (`max_token`, `auth_dim`) are not, except that numbers are
    under the name of a password.
    """
    if value is None or isinstance(value, bool) or not is_secret(name):
        return False
    if isinstance(value, str):
        is_count = _is_number(value) and ("." in value or len(value) <= _MOST_DIGITS)
    elif isinstance(value, int):
        is_count = abs(value) < 10**_MOST_DIGITS
    else:
        is_count = isinstance(value, float)
    return not is_count or _is_password(_parts(name))


def _is_password(parts: List[str]) -> bool:
    """Whether it ends in a word for a password: `db_password`, `password_2`, `secret_key`."""
    last = max((at for at, part in enumerate(parts) if part in _PASSWORDS), default=None)
    return last is not None and all(
        part.isdigit() or part in ("key", "confirm", "") for part in parts[last + 1 :]
    )


def _parts(name: str) -> List[str]:
    return re.split(r"[-_.:/ ]", name.lstrip("-+").lower())


def masked(params: Mapping[str, Any]) -> Dict[str, Any]:
    """Plain parameters with secrets redacted, also passwords in addresses and headers."""
    return {
        name: REDACTED if is_secret_value(name, value) else _without_secrets(value)
        for name, value in params.items()
    }


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        at = _header_value(value)
        if at is not None:
            return value[:at] + REDACTED
        pattern = _POSTGRES if _POSTGRES.search(value) else _PASSWORD
        return pattern.sub(rf"\g<1>{REDACTED}\g<2>", value, count=1)
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value


def _header_value(word: str) -> Optional[int]:
    """Where the secret of a header begins in a word."""
    option = _LETTER.match(word)
    for begin in (0, option.end()) if option else (0,):
        bearer, header = _BEARER.match(word, begin), _HEADER.match(word, begin)
        if bearer:
            return bearer.end()
        if header and is_secret(header[1]):
            return header.end()
    return None


def masked_command(words: Sequence[str]) -> List[str]:
    """A command line with secrets redacted: `--token abc`, `--token=abc`, `token=abc`."""
    kept: List[str] = []
    # The option before if it is a secret's, and its first value.
    option, first = "", ""
    for word in words:
        if word.startswith("-") and not _is_number(word) or _ASSIGNMENT.match(word):
            name, sign, value = word.partition("=")
            at = _header_value(word)
            if at is not None and at <= len(name):
                option = ""
                kept.append(word[:at] + REDACTED)
                continue
            option, first = name if is_secret(name) and not sign else "", ""
            assigns = sign and is_secret_value(name, value)
            kept.append(f"{name}={REDACTED}" if assigns else _without_secrets(word))
            continue
        # Numbers after a number and texts after a text are values of one option.
        is_value = not first or _is_number(first) == _is_number(word)
        option = option if is_value else ""
        first = first or word
        hides = option and (is_secret_value(option, first) or is_secret_value(option, word))
        kept.append(REDACTED if hides else _without_secrets(word))
    return kept


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    # Not Python's `1_000`.
    return "_" not in word
