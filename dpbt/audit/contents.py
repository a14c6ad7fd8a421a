"""What Python objects hold, so that what two runs return can be compared by content.

Identity is no evidence: two runs make two objects, and many classes compare by identity. So each
object is taken apart into numbers, words and arrays, each under its place, such as `['leaf'].n`.
NaN equals NaN, and the sign of zero does not count. Instances are taken apart by their attributes
and slots, functions by their code, defaults, closures and the plain globals that they name, and
what has its state in C by what it pickles. Nothing is consumed or called but what pickles a value.

What shows nothing of what it holds, such as a lock, an iterator or an open file, is listed as
unknown: it is no evidence that two runs are alike, and none that they differ. Neither is an
attribute that a class hides from its pickles, a memory address, or the order of a set.
"""

import functools
import hashlib
import importlib
import pathlib
import re
import sys
import types
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

MAX_PARTS, MAX_DEPTH = 50_000, 100
"""Of an object with more parts, or deeper ones, nothing is known."""


class Contents(NamedTuple):
    """What an object held at one moment.

    Attributes:
        parts: place -> a digest of the part that is there.
        orders: place of a mapping -> a digest of the order of its keys, which is no content.
        unknown: place -> the type of what cannot be compared.
    """

    parts: dict[str, bytes]
    orders: dict[str, bytes]
    unknown: dict[str, str]


def contents_of(value: Any, opaque: tuple[type, ...] = ()) -> Contents:
    """What an object holds now; later changes of it do not matter.

    Args:
        value: anything.
        opaque: types whose instances all count as alike.
    """
    found = _Reader(opaque)
    try:
        found.read("", value, 0)
    except _TooLargeError as error:
        return Contents({}, {}, {"": f"{type(value).__name__} {error}"})
    return Contents(found.parts, found.orders, found.unknown)


def different_parts(one: Contents, other: Contents) -> frozenset[str]:
    """The places where two objects hold different parts; places that are unknown do not count."""
    if any("" in each.unknown and not each.parts for each in (one, other)):
        return frozenset()  # too large to be read
    unknown = (*one.unknown, *other.unknown)
    places = one.parts.keys() | other.parts.keys()
    found = (place for place in places if one.parts.get(place) != other.parts.get(place))
    return frozenset(place for place in found if not any(_is_below(place, at) for at in unknown))


def _is_below(place: str, above: str) -> bool:
    """Whether a place is a part of what is at another."""
    return place.startswith(above) and place[len(above) : len(above) + 1] in (".", "[")


def uncompared_parts(one: Contents, other: Contents) -> list[str]:
    """Words for what could not be compared, or is in another order only."""
    unknown = {**one.unknown, **other.unknown}
    words = [f"{kind}{f' at {place}' if place else ''}" for place, kind in unknown.items()]
    orders = one.orders.keys() & other.orders.keys()
    if not different_parts(one, other):
        words += [
            f"the order of keys{f' at {place}' if place else ''}"
            for place in sorted(orders)
            if one.orders[place] != other.orders[place]
        ]
    return words


class _TooLargeError(Exception):
    """An object with more parts than are read, or deeper ones."""


_SCALARS = (type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented))
_TEXTUAL = (pathlib.PurePath, range)
"""Types whose text says all that they hold."""

_BUILT_IN = (dict, list, tuple, set, frozenset, str, bytes, bytearray, int, float)


class _Reader:
    """Takes one object apart."""

    def __init__(self, opaque: tuple[type, ...] = ()):
        self._opaque = opaque
        self.parts: dict[str, bytes] = {}
        self.orders: dict[str, bytes] = {}
        self.unknown: dict[str, str] = {}
        self._left, self._path = MAX_PARTS, []

    def read(self, place: str, value: Any, depth: int) -> None:
        """Add what is at a place."""
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            raise _TooLargeError("of more parts than are compared")
        known = _scalar_digest(value)
        if known is not None:
            self.parts[place] = known
            return
        if id(value) in self._path:  # a cycle, by how far up it leads
            self._put(place, "cycle", len(self._path) - self._path.index(id(value)))
            return
        self._path.append(id(value))
        try:
            self._whole(place, value, depth + 1)
        except _TooLargeError:
            raise
        except Exception:  # of an object that does not show what it holds
            self._cannot(place, value)
        finally:
            self._path.pop()

    def _put(self, place: str, *words: Any) -> None:
        self.parts[place] = _digest(*words)

    def _cannot(self, place: str, value: Any) -> None:
        self.unknown[place] = _class_name(type(value))

    def _type(self, place: str, value: Any, depth: int) -> None:
        """The class of an instance by its name, and by its contents if no module has it."""
        kind = type(value)
        self._put(place, "instance of", _class_name(kind))
        if not _is_importable(kind) and id(kind) not in self._path:
            self.read(f"{place}.__class__", kind, depth)

    def _whole(self, place: str, value: Any, depth: int) -> None:
        kind, top = type(value), type(value).__module__.partition(".")[0]
        if isinstance(value, self._opaque):
            self._type(place, value, depth)
        elif isinstance(value, np.ndarray | np.generic):
            self._array(place, value, depth)
        elif isinstance(value, types.ModuleType):
            self._put(place, "module", value.__name__)
        elif isinstance(value, type):
            self._class(place, value, depth)
        elif isinstance(value, types.FunctionType):
            self._function(place, value, depth)
        elif isinstance(value, types.CodeType):
            self._code(place, value, depth)
        elif isinstance(value, types.MethodType):
            self._put(place, "method")
            self.read(f"{place}.__func__", value.__func__, depth)
            self.read(f"{place}.__self__", value.__self__, depth)
        elif isinstance(value, functools.partial):
            self._type(place, value, depth)
            for name in ("func", "args", "keywords"):
                self.read(f"{place}.{name}", getattr(value, name), depth)
            self._attributes(place, value, depth)
        elif isinstance(value, types.CellType):
            self._put(place, "cell")
            try:
                self.read(f"{place}.value", value.cell_contents, depth)
            except ValueError:
                self._put(f"{place}.value", "empty")
        elif isinstance(value, Iterator | types.CoroutineType):
            self._type(place, value, depth)
            self._cannot(place, value)
        elif isinstance(value, _BUILT_IN):
            self._built_in(place, value, depth)
        elif isinstance(value, types.MappingProxyType):
            self._put(place, "view of a mapping")
            self._mapping(place, dict(value), depth)
        elif top in ("pandas", "polars", "pyarrow"):
            self._frame(place, value, depth)
        elif sparse.issparse(value):
            cells = value.tocoo(copy=True)
            cells.sum_duplicates()
            self._put(place, "sparse", _class_name(kind), value.shape)
            for name in ("data", "row", "col") if value.ndim == 2 else ("data",):
                self._array(f"{place}.{name}", getattr(cells, name), depth)
            if value.ndim != 2:
                self.read(f"{place}.coords", tuple(cells.coords), depth)
        else:
            self._instance(place, value, depth)

    # Arrays and frames.

    def _array(self, place: str, value: Any, depth: int) -> None:
        array = np.asarray(getattr(value, "data", value)) if _is_masked(value) else value
        array = np.asarray(array)
        self._type(place, value, depth)
        form = str(array.dtype), array.shape
        if array.dtype.names:
            self._put(f"{place}.dtype", *form)
            for name in array.dtype.names:  # padding between fields is no content
                self._array(f"{place}[{name!r}]", array[name], depth)
        elif array.dtype.kind == "O":
            self._put(f"{place}.dtype", *form)
            self._items(place, array.ravel().tolist(), depth)
        else:
            self._put(f"{place}.values", *form, _bytes(array))
        if _is_masked(value):
            self._array(f"{place}.mask", np.ma.getmaskarray(value), depth)
        if type(value) is not np.ndarray and isinstance(value, np.ndarray):
            hidden = {"_mask", "_fill_value", "_basedict", "_optinfo"} if _is_masked(value) else ()
            self._attributes(place, value, depth, hidden)

    def _frame(self, place: str, value: Any, depth: int) -> None:
        """A data frame, a column or an index by its cells, and not by how it stores them."""
        self._type(place, value, depth)
        try:
            parts = _parts_of_frame(value)
        except Exception:
            parts = None
        if parts is None:
            self._pickled(place, value, depth)
        else:
            for name, part in parts.items():
                self.read(f"{place}.{name}", part, depth)

    # Containers.

    def _built_in(self, place: str, value: Any, depth: int) -> None:
        """A built-in value or container, or an instance of a subclass of it."""
        self._type(place, value, depth)
        if isinstance(value, dict):
            self._mapping(place, value, depth)
            if isinstance(value, OrderedDict):
                self.parts[f"{place}.order"] = self.orders.pop(place, b"")
            if isinstance(value, defaultdict):
                self.read(f"{place}.default_factory", value.default_factory, depth)
        elif isinstance(value, list | tuple):
            self._items(place, [*_iterated(value)], depth)
        elif isinstance(value, set | frozenset):
            self._set(place, [*_iterated(value)], depth)
        else:
            plain: Any = next(base for base in _BUILT_IN if isinstance(value, base))
            content: Any = plain(value)
            self._put(
                f"{place}.value", _scalar_digest(bytes(content) if plain is bytearray else content)
            )
        if type(value) not in _BUILT_IN and not isinstance(value, OrderedDict):
            self._attributes(place, value, depth)

    def _items(self, place: str, items: list, depth: int) -> None:
        known = [_scalar_digest(item) for item in items]
        self._put(f"{place}.len", len(items))
        if all(each is not None for each in known):
            self.parts[f"{place}[:]"] = hashlib.blake2b(b"".join(known)).digest()  # type: ignore
            return
        for number, item in enumerate(items):
            self.read(f"{place}[{number}]", item, depth)

    def _set(self, place: str, items: list, depth: int) -> None:
        """A set by its members, in no order."""
        members, unknown = self._apart(items, depth)
        self._put(f"{place}.members", *sorted(members))
        if unknown:
            self.unknown[place] = f"{unknown} in a set"

    def _mapping(self, place: str, value: dict, depth: int) -> None:
        """A dict by its keys and values; their order is kept apart."""
        keys, unknown = self._apart(dict.keys(value), depth)
        if unknown or len(set(keys)) < len(keys):
            self.unknown[place] = f"{unknown or 'keys that are alike'} as a key"
            return
        self._put(f"{place}.keys", *sorted(keys))
        self.orders[place] = _digest(*keys)
        for digest, (key, item) in zip(keys, dict.items(value), strict=True):
            words = repr(key) if isinstance(key, _SCALARS) else digest.hex()[:12]
            words = words if len(words) <= 40 else f"{words[:20]}...{digest.hex()[:12]}"
            self.read(f"{place}[{words}]", item, depth)

    def _apart(self, items: Any, depth: int) -> tuple[list[bytes], str]:
        """A digest of each of some objects, and the type of one that cannot be compared."""
        digests, unknown = [], ""
        for item in items:
            if (known := _scalar_digest(item)) is not None:
                digests.append(known)
                continue
            inner = _Reader(self._opaque)
            inner._left, inner._path = self._left, [*self._path]
            inner.read("", item, depth)
            self._left = inner._left
            digests.append(_digest(*(word for at in sorted(inner.parts.items()) for word in at)))
            unknown = unknown or next(iter(inner.unknown.values()), "")
        return digests, unknown

    # Code.

    def _function(self, place: str, value: types.FunctionType, depth: int) -> None:
        self._put(place, "function", value.__module__, value.__qualname__)
        self._code(f"{place}.__code__", value.__code__, depth)
        for name in ("__defaults__", "__kwdefaults__", "__dict__", "__closure__"):
            self.read(f"{place}.{name}", getattr(value, name), depth)
        for name in _names_in(value.__code__):
            held = value.__globals__.get(name)
            if _is_plain(held):
                self.read(f"{place}.__globals__[{name!r}]", held, depth)

    def _code(self, place: str, value: types.CodeType, depth: int) -> None:
        names = value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars
        counts = value.co_argcount, value.co_kwonlyargcount, value.co_flags
        self._put(place, "code", value.co_name, value.co_code, *names, *counts)
        self.read(f"{place}.co_consts", value.co_consts, depth)

    def _class(self, place: str, value: type, depth: int) -> None:
        self._put(place, "class", _class_name(value))
        if _is_importable(value):
            return
        self.read(f"{place}.__bases__", value.__bases__, depth)
        hidden = "__dict__ __weakref__ __module__ __doc__ __firstlineno__ __static_attributes__"
        hidden += " _abc_impl __abstractmethods__ __annotations__ __annotations_cache__"
        for name, held in sorted(vars(value).items()):
            if name in hidden.split() or isinstance(held, _DESCRIPTORS):
                continue
            if isinstance(held, staticmethod | classmethod):
                held = held.__func__
            if isinstance(held, property):
                held = held.fget, held.fset, held.fdel
            self.read(f"{place}.{name}", held, depth)

    # Instances.

    def _instance(self, place: str, value: Any, depth: int) -> None:
        self._type(place, value, depth)
        numbers = _numbers_of(value)
        if numbers is not None:
            self._array(f"{place}.values", numbers, depth)
            self._attributes(place, value, depth)
        elif isinstance(value, _TEXTUAL):
            self._put(f"{place}.value", repr(value))
        elif isinstance(value, re.Pattern):
            self._put(f"{place}.value", repr(value.pattern), value.flags)
        elif isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType):
            self._put(f"{place}.name", value.__name__)
            self.read(f"{place}.__self__", value.__self__, depth)
        elif _is_of_python(type(value)):
            self._attributes(place, value, depth)
        else:
            self._pickled(place, value, depth)

    def _attributes(self, place: str, value: Any, depth: int, hidden: Any = ()) -> None:
        """The attributes of an instance, by name, and its slots."""
        held = dict(getattr(value, "__dict__", {}))
        for kind in type(value).__mro__:
            for name, slot in vars(kind).items():
                if isinstance(slot, types.MemberDescriptorType) and hasattr(slot, "__get__"):
                    try:
                        held[name] = slot.__get__(value, kind)
                    except AttributeError:  # an empty slot
                        continue
        self._put(f"{place}.attributes", *sorted(str(name) for name in held))
        for name in sorted(held, key=str):
            if name not in hidden:
                self.read(f"{place}.{name}", held[name], depth)

    def _pickled(self, place: str, value: Any, depth: int) -> None:
        """What has its state in C, by the parts of its pickle."""
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:
            reduced = None
        if isinstance(reduced, str) and _global_of(value, reduced) is value:
            self._put(f"{place}.name", reduced)
        elif isinstance(reduced, tuple):
            state, items = [*reduced[:3], None][:3], [*reduced[3:], None, None][:2]
            parts = *state, *(None if each is None else [*each] for each in items)
            for number, part in enumerate(parts):
                self.read(f"{place}.pickled[{number}]", part, depth)
        else:
            wrapped = getattr(value, "__wrapped__", None)
            self._cannot(place if wrapped is None else f"{place}.state", value)
            if wrapped is not None:
                self.read(f"{place}.__wrapped__", wrapped, depth)


_DESCRIPTORS = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)


def _digest(*words: Any) -> bytes:
    """32 bytes that follow from some words and numbers."""
    return hashlib.blake2b(repr(words).encode("utf-8", "backslashreplace"), digest_size=32).digest()


def _scalar_digest(value: Any) -> bytes | None:
    """A digest of a plain number or word; None of anything else."""
    kind = type(value)
    if kind is float:
        return _digest("float", "nan" if value != value else value + 0.0)
    if kind is complex:
        parts = (value.real, value.imag)
        return _digest("complex", *("nan" if each != each else each + 0.0 for each in parts))
    return _digest(kind.__name__, value) if kind in _SCALARS else None


def _class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _global_of(value: Any, path: str) -> Any:
    """What the module of a value holds under a name, which may have points; None for nothing."""
    found: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _is_importable(kind: type) -> bool:
    """Whether a module has a class under its name, so that the name says which class it is."""
    return _global_of(kind, kind.__qualname__) is kind


def _is_of_python(kind: type) -> bool:
    """Whether instances hold nothing but attributes and slots, so none of their state is in C."""
    slots = sum(
        isinstance(slot, types.MemberDescriptorType)
        for each in kind.__mro__
        for slot in vars(each).values()
    )
    pointers = slots + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    most = object.__basicsize__ + pointers * np.dtype(np.intp).itemsize
    return kind.__itemsize__ == 0 and kind.__basicsize__ <= most and kind is not object


def _is_masked(value: Any) -> bool:
    return isinstance(value, np.ma.MaskedArray)


def _iterated(value: Any) -> Iterator:
    """The members of a built-in container, without code of a subclass."""
    kind: Any = next(base for base in _BUILT_IN if isinstance(value, base))
    return kind.__iter__(value)


def _bytes(array: np.ndarray) -> bytes:
    """The numbers of an array; NaN has one form, and zero no sign."""
    if array.dtype.kind == "c":
        return _bytes(np.real(array)) + _bytes(np.imag(array))
    if array.dtype.kind == "f":
        if array.dtype.itemsize > 8:  # of which some bytes are padding
            high = array.astype(np.float64)
            with np.errstate(invalid="ignore"):
                return _bytes(high) + _bytes((array - high).astype(np.float64))
        array = np.where(np.isnan(array), np.nan, array + 0).astype(array.dtype)
    return array.tobytes() if array.dtype.kind in "biufmMSUV" else repr(array.tolist()).encode()


def _is_plain(value: Any) -> bool:
    """Whether a global is data rather than a module, a class or a function."""
    plain = np.ndarray | np.generic | bool | int | float | complex | str | bytes
    return isinstance(value, plain) or type(value) in (list, tuple, dict, set, frozenset)


def _names_in(code: types.CodeType) -> list[str]:
    """The names that a function and those within it look up."""
    inner = [_names_in(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return sorted({*code.co_names, *(name for names in inner for name in names)})


def _numbers_of(value: Any) -> np.ndarray | None:
    """What another library's array holds, such as that of JAX; None of anything else."""
    if not hasattr(value, "__array__") or not hasattr(value, "dtype"):
        return None
    try:
        found = np.asarray(value)
    except Exception:
        return None
    return None if found.dtype.kind == "O" else found


def _parts_of_frame(value: Any) -> dict[str, Any] | None:
    """The cells of a frame, a column or an index, and its types, by name; None of others."""
    kind = type(value).__name__
    top = type(value).__module__.partition(".")[0]
    if top == "pyarrow":
        if hasattr(value, "to_pylist") and hasattr(value, "schema"):
            names = list(value.schema.names)
            cells = [column.to_pylist() for column in value.columns]
            return {"schema": str(value.schema), "names": names, "cells": cells}
        if hasattr(value, "to_pylist"):
            return {"type": str(value.type), "cells": value.to_pylist()}
        return None
    if top == "polars":
        if kind == "DataFrame":
            return {"names": value.columns, "columns": value.get_columns()}
        if kind == "Series":
            return {"name": value.name, "dtype": str(value.dtype), "cells": value.to_list()}
        return None
    pandas = importlib.import_module("pandas")
    if value is pandas.NaT or value is pandas.NA:
        return {}
    if isinstance(value, pandas.Timestamp | pandas.Timedelta | pandas.Period):
        return {"text": repr(value)}
    if isinstance(value, pandas.DataFrame):
        columns = [value.iloc[:, place] for place in range(value.shape[1])]
        about = {"names": value.columns, "index": value.index, "attrs": dict(value.attrs)}
        return {**about, "columns": [[str(each.dtype), each.array] for each in columns]}
    if isinstance(value, pandas.Series):
        about = {"name": value.name, "index": value.index, "attrs": dict(value.attrs)}
        return {**about, "dtype": str(value.dtype), "cells": value.array}
    if isinstance(value, pandas.MultiIndex):
        return {"names": list(value.names), "cells": value.tolist()}
    if isinstance(value, pandas.Index):
        return {"names": list(value.names), "dtype": str(value.dtype), "cells": value.array}
    if isinstance(value, pandas.Categorical):
        about = {"categories": value.categories, "ordered": bool(value.ordered)}
        return {**about, "cells": np.asarray(value.codes)}
    if isinstance(value, pandas.api.extensions.ExtensionArray):
        return {"dtype": str(value.dtype), "cells": value.tolist()}
    return None
