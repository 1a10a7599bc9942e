"""Frozen dataclasses as JSON documents and back: strict, and in one place for every kind of document.

A document is an object with `"schema": "NAME/1"` first and the fields of one dataclass after it. A field whose default
is None is left out while it is None. Reading refuses unknown keys, wrong types and other schemas, with the JSON path
and the nearest valid key; numbers that JSON has no word for (NaN, infinity) are never written.
"""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from topo.errors import CaptureError, TopoError

T = TypeVar("T")


def encode(value: object, schema: str, *, derived: Mapping[str, object] | None = None) -> str:
    """The JSON document of a dataclass instance, indented, ending in a newline.

    `derived` is written behind the fields: what readers of the document need and `decode` ignores. ValueError where a
    number is not finite, TypeError where a value is no dataclass, tuple, list, dict, str, number, bool or None.
    """
    if not dataclasses.is_dataclass(value):
        raise TypeError(f"{type(value).__name__} is no dataclass: only those are written as documents")
    return encode_document(schema, {**to_plain(value), **(derived or {})})


def encode_document(schema: str, content: Mapping[str, object]) -> str:
    """The JSON document of anything made of dataclasses, lists, dicts and scalars, behind its schema."""
    import msgspec

    plain = {"schema": schema, **to_plain(content)}
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"


def encode_rows(schema: str, keys: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The JSON document of a plain table: `{"schema": ..., "rows": [{key: cell}]}`."""
    return encode_document(schema, {"rows": [dict(zip(keys, row, strict=True)) for row in rows]})


def to_plain(value: object, path: str = "$") -> Any:
    """The value in dicts, lists and scalars only; `path` stands in errors."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_plain(item, f"{path}.{field.name}")
            for field in dataclasses.fields(value)
            if (item := getattr(value, field.name)) is not None or field.default is not None
        }
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path} is {value}: JSON holds finite numbers only")
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{path} is a {type(value).__name__}: a document holds dataclasses, lists, dicts and scalars")


def decode(text: str, type_: type[T], schema: str, source: str = "", *, derived: Collection[str] = ()) -> T:
    """The instance of `type_` that a document holds; top-level keys named in `derived` are ignored.

    Raises CaptureError with the source and the JSON path: not JSON, another schema, an unknown key (with the nearest
    valid one), a missing key, a wrong type, or a value that the dataclass itself refuses.
    """
    import msgspec

    document = _parse(text, source)
    if not isinstance(document, dict):
        raise CaptureError(f"expected a JSON object with the schema {schema!r}", source=source)
    found = document.pop("schema", None)
    if found != schema:
        raise CaptureError(f"$.schema is {found!r}, expected {schema!r}: a document of another kind", source=source)
    plain = {key: item for key, item in document.items() if key not in derived}
    _check_keys(plain, type_, "$", source)
    try:
        return msgspec.convert(plain, type_)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, TopoError):
            raise CaptureError(str(error.__cause__), source=source) from error
        raise CaptureError(_sentence(str(error)), source=source) from None


def schema_of(text: str) -> str | None:
    """The schema that a JSON document claims, None where the text is no JSON object with one."""
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return None
    try:
        document = _parse(text, "")
    except CaptureError:
        return None
    found = document.get("schema") if isinstance(document, dict) else None
    return found if isinstance(found, str) else None


def _parse(text: str, source: str) -> Any:
    """The JSON value of the text; CaptureError with the line where it is malformed."""
    import msgspec

    try:
        document = msgspec.json.decode(text.removeprefix("\ufeff"))
        _refuse_twice(text, source)
        return document
    except msgspec.DecodeError as error:
        words = str(error).removeprefix("JSON is malformed: ")
        at_byte = re.search(r" \(byte (\d+)\)", words)
        line = text.encode()[: int(at_byte[1])].count(b"\n") + 1 if at_byte else None
        words = words.replace(at_byte[0], "") if at_byte else words
        raise CaptureError(f"malformed or cut-off JSON ({words}): capture it again", source=source, line=line) from None
    except RecursionError:
        raise CaptureError("the JSON is nested too deeply: this is no document of ours", source=source) from None
    except UnicodeEncodeError:
        raise CaptureError("the JSON holds characters that are no text: capture it again", source=source) from None


def _refuse_twice(text: str, source: str) -> None:
    """Refuses an object that has one key twice: parsers differ in which of the two they keep."""
    import json

    def checked(pairs: list[tuple[str, object]]) -> None:
        if len(keys := {key for key, _ in pairs}) < len(pairs):
            given = [key for key, _ in pairs]
            twice = next(key for key in given if key in keys and given.count(key) > 1)
            raise CaptureError(f"the key {twice!r} stands twice in one JSON object: keep one of the two", source=source)

    json.loads(text.removeprefix("\ufeff"), object_pairs_hook=checked)


def _sentence(message: str) -> str:
    """msgspec's message with the path in front: "$.links[0].lanes: expected `int`, got `str`"."""
    words, found, path = message.partition(" - at `")
    return f"{path.removesuffix('`')}: {words[0].lower()}{words[1:]}" if found else words


def _check_keys(plain: object, type_: Any, path: str, source: str) -> None:
    """Refuses keys that no dataclass field has and words that no choice has, anywhere in the document."""
    if dataclasses.is_dataclass(type_) and isinstance(plain, dict):
        hints = typing.get_type_hints(type_)
        known = [field.name for field in dataclasses.fields(type_) if field.init]
        for key, item in plain.items():
            if key not in known:
                raise CaptureError(f"{path}.{key} is no key here: {_nearest(key, known)}", source=source)
            _check_keys(item, hints[key], f"{path}.{key}", source)
        return
    arguments = typing.get_args(type_)
    origin = typing.get_origin(type_)
    if origin is typing.Literal and isinstance(plain, str) and plain not in arguments:
        raise CaptureError(f"{path} is {plain!r}: {_nearest(plain, arguments)}", source=source)
    if isinstance(plain, list) and origin in (tuple, list) and arguments:
        for index, item in enumerate(plain):
            element = (
                arguments[0] if arguments[-1] is ... or origin is list else arguments[min(index, len(arguments) - 1)]
            )
            _check_keys(item, element, f"{path}[{index}]", source)
    elif isinstance(plain, dict) and len(arguments) == 2 and origin not in (types.UnionType, typing.Union):
        for key, item in plain.items():
            _check_keys(item, arguments[1], f"{path}.{key}", source)
    elif origin in (types.UnionType, typing.Union):
        for choice in arguments:
            if dataclasses.is_dataclass(choice) or typing.get_origin(choice) is not None:
                _check_keys(plain, choice, path, source)


def _nearest(key: str, known: Collection[str]) -> str:
    import difflib

    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
