"""The contents of Python objects, by which the returned objects of two runs are compared.

Identity is no evidence: two runs create two objects, and many classes compare by identity. So each
object is decomposed into numbers, words and arrays, each under its place, such as `['leaf'].n`. NaN
equals NaN, and the sign of zero does not count. Instances are decomposed into their attributes and
slots, functions into their code, defaults, closures and the plain globals that they name, and
objects with state in C into the parts of their pickle. The reader consumes nothing, and calls
nothing but the methods that pickle a value.

An object that does not show its contents, such as a lock, an iterator or an open file, is listed as
unknown: it is no evidence that two runs are alike, and none that they differ. Neither is an
attribute that a class hides from its pickles, a memory address, or the order of a set.
"""

import functools
import hashlib
import importlib
import itertools
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
"""An object with more parts, or deeper parts, counts as unknown."""


class Contents(NamedTuple):
    """The contents of an object at one moment.

    Attributes:
        parts: place -> a digest of the part that is there.
        orders: place of a mapping -> a digest of the order of its keys, which is no content.
        unknown: place -> the type of an object that cannot be compared.
    """

    parts: dict[str, bytes]
    orders: dict[str, bytes]
    unknown: dict[str, str]


def snapshot_contents(value: Any, opaque: tuple[type, ...] = ()) -> Contents:
    """Record the contents of an object as digests of its parts.

    Later changes of the object do not change them.

    Args:
        value: anything.
        opaque: types whose instances all count as alike.
    """
    reader = _ContentsReader(opaque)
    try:
        reader.add_parts("", value, 0)
    except _TooLargeError as error:
        return Contents(parts={}, orders={}, unknown={"": f"{type(value).__name__} {error}"})
    return Contents(parts=reader.parts, orders=reader.orders, unknown=reader.unknown)


def places_of_differences(first: Contents, second: Contents) -> frozenset[str]:
    """The places within two objects where they hold different parts.

    A place is the path to a part, such as `['leaf'].n`. Places that are unknown do not count.
    """
    if any("" in contents.unknown and not contents.parts for contents in (first, second)):
        return frozenset()  # one of them is too large to be read
    unknown = (*first.unknown, *second.unknown)
    places = first.parts.keys() | second.parts.keys()
    return frozenset(
        place
        for place in places
        if first.parts.get(place) != second.parts.get(place)
        and not any(_is_place_within(place, unknown_place) for unknown_place in unknown)
    )


def _is_place_within(place: str, outer_place: str) -> bool:
    """Whether a place, such as `['leaf'].n`, is within the object at another place."""
    return place.startswith(outer_place) and place[len(outer_place) :][:1] in (".", "[")


def describe_uncompared_parts(first: Contents, second: Contents) -> list[str]:
    """Describe the parts that could not be compared, or that differ in their order alone."""
    unknown = {**first.unknown, **second.unknown}
    words = [f"{kind}{f' at {place}' if place else ''}" for place, kind in unknown.items()]
    orders = first.orders.keys() & second.orders.keys()
    if not places_of_differences(first, second):
        words += [
            f"the order of keys{f' at {place}' if place else ''}"
            for place in sorted(orders)
            if first.orders[place] != second.orders[place]
        ]
    return words


class _TooLargeError(Exception):
    """The error for an object with more parts than are read, or deeper ones."""


_SCALAR_TYPES = (type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented))
_TYPES_SHOWN_BY_REPR = (pathlib.PurePath, range)
"""Types whose text says all that they hold."""

_BUILT_IN_TYPES = (dict, list, tuple, set, frozenset, str, bytes, bytearray, int, float)


class _ItemDigests(NamedTuple):
    """Digests of objects that are compared without their order.

    Attributes:
        digests: one for each object.
        unknown_type: the type of an object within them that cannot be compared; empty if none.
    """

    digests: list[bytes]
    unknown_type: str


class _ContentsReader:
    """Collects digests of the parts of one object by their places.

    `parts`, `orders` and `unknown` are those of `Contents`.
    """

    def __init__(self, opaque: tuple[type, ...] = ()):
        self._opaque = opaque
        self.parts: dict[str, bytes] = {}
        self.orders: dict[str, bytes] = {}
        self.unknown: dict[str, str] = {}
        self._num_parts_left = MAX_PARTS
        self._path: list[int] = []  # identities of the objects that the current one is within

    def add_parts(self, place: str, value: Any, depth: int) -> None:
        """Add the parts of the object at a place, which lies within `depth` other objects."""
        self._num_parts_left -= 1
        if self._num_parts_left < 0 or depth > MAX_DEPTH:
            raise _TooLargeError("of more parts than are compared")
        scalar_digest = _scalar_digest(value)
        if scalar_digest is not None:
            self.parts[place] = scalar_digest
            return
        if id(value) in self._path:  # a cycle; its content is how far up it leads
            self._add_part(place, "cycle", len(self._path) - self._path.index(id(value)))
            return
        self._path.append(id(value))
        try:
            self._add_parts_by_type(place, value, depth + 1)
        except _TooLargeError:
            raise
        except Exception:  # the object does not show its contents
            self._add_unknown(place, value)
        finally:
            self._path.pop()

    def _add_part(self, place: str, *words: Any) -> None:
        """Record a digest of some words and numbers as the part at a place."""
        self.parts[place] = _digest(*words)

    def _add_unknown(self, place: str, value: Any) -> None:
        """Record that the object at a place cannot be compared."""
        self.unknown[place] = _qualified_name(type(value))

    def _add_class(self, place: str, value: Any, depth: int) -> None:
        """Add the class of an instance by its name, and by its contents if no module has it."""
        kind = type(value)
        self._add_part(place, "instance of", _qualified_name(kind))
        if not _is_importable(kind) and id(kind) not in self._path:
            self.add_parts(f"{place}.__class__", kind, depth)

    def _add_parts_by_type(self, place: str, value: Any, depth: int) -> None:
        """Add the parts of an object by the method for its type."""
        library = type(value).__module__.partition(".")[0]
        if isinstance(value, self._opaque):
            self._add_class(place, value, depth)
        elif isinstance(value, np.ndarray | np.generic):
            self._add_parts_of_array(place, value, depth)
        elif isinstance(value, types.ModuleType):
            self._add_part(place, "module", value.__name__)
        elif isinstance(value, type):
            self._add_parts_of_class(place, value, depth)
        elif isinstance(value, types.FunctionType):
            self._add_parts_of_function(place, value, depth)
        elif isinstance(value, types.CodeType):
            self._add_parts_of_code(place, value, depth)
        elif isinstance(value, types.MethodType):
            self._add_part(place, "method")
            self.add_parts(f"{place}.__func__", value.__func__, depth)
            self.add_parts(f"{place}.__self__", value.__self__, depth)
        elif isinstance(value, functools.partial):
            self._add_class(place, value, depth)
            for name in ("func", "args", "keywords"):
                self.add_parts(f"{place}.{name}", getattr(value, name), depth)
            self._add_attributes(place, value, depth)
        elif isinstance(value, types.CellType):
            self._add_part(place, "cell")
            try:
                self.add_parts(f"{place}.value", value.cell_contents, depth)
            except ValueError:
                self._add_part(f"{place}.value", "empty")
        elif isinstance(value, Iterator | types.CoroutineType):
            self._add_class(place, value, depth)
            self._add_unknown(place, value)
        elif isinstance(value, _BUILT_IN_TYPES):
            self._add_parts_of_built_in(place, value, depth)
        elif isinstance(value, types.MappingProxyType):
            self._add_part(place, "view of a mapping")
            self._add_parts_of_mapping(place, dict(value), depth)
        elif library in ("pandas", "polars", "pyarrow"):
            self._add_parts_of_frame(place, value, depth)
        elif sparse.issparse(value):
            self._add_parts_of_sparse(place, value, depth)
        else:
            self._add_parts_of_instance(place, value, depth)

    # Arrays and frames.

    def _add_parts_of_array(self, place: str, value: Any, depth: int) -> None:
        """Add the parts of an array of NumPy: its dtype, shape and numbers, and its mask if any."""
        array = np.asarray(getattr(value, "data", value)) if _is_masked(value) else value
        array = np.asarray(array)
        self._add_class(place, value, depth)
        dtype_and_shape = str(array.dtype), array.shape
        if array.dtype.names:
            self._add_part(f"{place}.dtype", *dtype_and_shape)
            for name in array.dtype.names:  # padding between fields is no content
                self._add_parts_of_array(f"{place}[{name!r}]", array[name], depth)
        elif array.dtype.kind == "O":
            self._add_part(f"{place}.dtype", *dtype_and_shape)
            self._add_parts_of_sequence(place, array.ravel().tolist(), depth)
        else:
            self._add_part(f"{place}.values", *dtype_and_shape, _canonical_bytes(array))
        if _is_masked(value):
            self._add_parts_of_array(f"{place}.mask", np.ma.getmaskarray(value), depth)
        if type(value) is not np.ndarray and isinstance(value, np.ndarray):
            hidden = {"_mask", "_fill_value", "_basedict", "_optinfo"} if _is_masked(value) else ()
            self._add_attributes(place, value, depth, hidden)

    def _add_parts_of_sparse(self, place: str, value: Any, depth: int) -> None:
        """Add the parts of a sparse array: its cells, in order."""
        cells = value.tocoo(copy=True)
        cells.sum_duplicates()
        self._add_part(place, "sparse", _qualified_name(type(value)), value.shape)
        for name in ("data", "row", "col") if value.ndim == 2 else ("data",):
            self._add_parts_of_array(f"{place}.{name}", getattr(cells, name), depth)
        if value.ndim != 2:
            self.add_parts(f"{place}.coords", tuple(cells.coords), depth)

    def _add_parts_of_frame(self, place: str, value: Any, depth: int) -> None:
        """Add the parts of a data frame, a column or an index: its cells, and not their storage."""
        self._add_class(place, value, depth)
        try:
            contents = _contents_of_frame_or_column(value)
        except Exception:
            contents = None
        if contents is None:
            self._add_parts_of_pickle(place, value, depth)
        else:
            for name, content in contents.items():
                self.add_parts(f"{place}.{name}", content, depth)

    # Containers.

    def _add_parts_of_built_in(self, place: str, value: Any, depth: int) -> None:
        """Add the parts of a built-in value or container, or of an instance of a subclass of it."""
        self._add_class(place, value, depth)
        if isinstance(value, dict):
            self._add_parts_of_mapping(place, value, depth)
            if isinstance(value, OrderedDict):
                self.parts[f"{place}.order"] = self.orders.pop(place, b"")
            if isinstance(value, defaultdict):
                self.add_parts(f"{place}.default_factory", value.default_factory, depth)
        elif isinstance(value, list | tuple):
            self._add_parts_of_sequence(place, [*_iterate_built_in(value)], depth)
        elif isinstance(value, set | frozenset):
            self._add_parts_of_set(place, [*_iterate_built_in(value)], depth)
        else:
            plain: Any = next(base for base in _BUILT_IN_TYPES if isinstance(value, base))
            content: Any = plain(value)
            self._add_part(
                f"{place}.value", _scalar_digest(bytes(content) if plain is bytearray else content)
            )
        if type(value) not in _BUILT_IN_TYPES and not isinstance(value, OrderedDict):
            self._add_attributes(place, value, depth)

    def _add_parts_of_sequence(self, place: str, items: list, depth: int) -> None:
        """Add the parts of a sequence by its items; a sequence of scalars has one digest."""
        digests = [_scalar_digest(item) for item in items]
        self._add_part(f"{place}.len", len(items))
        if all(digest is not None for digest in digests):
            self.parts[f"{place}[:]"] = hashlib.blake2b(b"".join(digests)).digest()  # type: ignore
            return
        for number, item in enumerate(items):
            self.add_parts(f"{place}[{number}]", item, depth)

    def _add_parts_of_set(self, place: str, items: list, depth: int) -> None:
        """Add the members of a set as one part, in no order."""
        members = self._digests_of_unordered_objects(items, depth)
        self._add_part(f"{place}.members", *sorted(members.digests))
        if members.unknown_type:
            self.unknown[place] = f"{members.unknown_type} in a set"

    def _add_parts_of_mapping(self, place: str, value: dict, depth: int) -> None:
        """Add the keys and values of a dict as parts.

        The order of its keys goes to `orders`.
        """
        keys, unknown_type = self._digests_of_unordered_objects(dict.keys(value), depth)
        if unknown_type or len(set(keys)) < len(keys):
            self.unknown[place] = f"{unknown_type or 'keys that are alike'} as a key"
            return
        self._add_part(f"{place}.keys", *sorted(keys))
        self.orders[place] = _digest(*keys)
        for digest, (key, item) in zip(keys, dict.items(value), strict=True):
            words = repr(key) if isinstance(key, _SCALAR_TYPES) else digest.hex()[:12]
            words = words if len(words) <= 40 else f"{words[:20]}...{digest.hex()[:12]}"
            self.add_parts(f"{place}[{words}]", item, depth)

    def _digests_of_unordered_objects(self, objects: Any, depth: int) -> _ItemDigests:
        """Digest each of some objects on its own, such as the members of a set or keys.

        Such objects have no places.
        """
        digests = []
        unknown_type = ""
        for each in objects:
            if (scalar_digest := _scalar_digest(each)) is not None:
                digests.append(scalar_digest)
                continue
            inner = _ContentsReader(self._opaque)
            inner._num_parts_left = self._num_parts_left
            inner._path = [*self._path]
            inner.add_parts("", each, depth)
            self._num_parts_left = inner._num_parts_left
            words = itertools.chain.from_iterable(sorted(inner.parts.items()))
            digests.append(_digest(*words))
            unknown_type = unknown_type or next(iter(inner.unknown.values()), "")
        return _ItemDigests(digests=digests, unknown_type=unknown_type)

    # Code.

    def _add_parts_of_function(self, place: str, value: types.FunctionType, depth: int) -> None:
        """Add the name, the code and the data that the code reads as parts of a function."""
        self._add_part(place, "function", value.__module__, value.__qualname__)
        self._add_parts_of_code(f"{place}.__code__", value.__code__, depth)
        for name in ("__defaults__", "__kwdefaults__", "__dict__", "__closure__"):
            self.add_parts(f"{place}.{name}", getattr(value, name), depth)
        for name in _global_names_in_code(value.__code__):
            global_value = value.__globals__.get(name)
            if _is_plain_data(global_value):
                self.add_parts(f"{place}.__globals__[{name!r}]", global_value, depth)

    def _add_parts_of_code(self, place: str, value: types.CodeType, depth: int) -> None:
        """Add the instructions, names and constants of a code object as parts."""
        names = value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars
        counts = value.co_argcount, value.co_kwonlyargcount, value.co_flags
        self._add_part(place, "code", value.co_name, value.co_code, *names, *counts)
        self.add_parts(f"{place}.co_consts", value.co_consts, depth)

    def _add_parts_of_class(self, place: str, value: type, depth: int) -> None:
        """Add a class by its name, and by its attributes if no module has it under that name."""
        self._add_part(place, "class", _qualified_name(value))
        if _is_importable(value):
            return
        self.add_parts(f"{place}.__bases__", value.__bases__, depth)
        hidden = "__dict__ __weakref__ __module__ __doc__ __firstlineno__ __static_attributes__"
        hidden += " _abc_impl __abstractmethods__ __annotations__ __annotations_cache__"
        for name, member in sorted(vars(value).items()):
            if name in hidden.split() or isinstance(member, _DESCRIPTOR_TYPES):
                continue
            if isinstance(member, staticmethod | classmethod):
                member = member.__func__
            if isinstance(member, property):
                member = member.fget, member.fset, member.fdel
            self.add_parts(f"{place}.{name}", member, depth)

    # Instances.

    def _add_parts_of_instance(self, place: str, value: Any, depth: int) -> None:
        """Add the parts of an instance of a class that is not built in."""
        self._add_class(place, value, depth)
        numbers = _as_numeric_array(value)
        if numbers is not None:
            self._add_parts_of_array(f"{place}.values", numbers, depth)
            self._add_attributes(place, value, depth)
        elif isinstance(value, _TYPES_SHOWN_BY_REPR):
            self._add_part(f"{place}.value", repr(value))
        elif isinstance(value, re.Pattern):
            self._add_part(f"{place}.value", repr(value.pattern), value.flags)
        elif isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType):
            self._add_part(f"{place}.name", value.__name__)
            self.add_parts(f"{place}.__self__", value.__self__, depth)
        elif _is_pure_python(type(value)):
            self._add_attributes(place, value, depth)
        else:
            self._add_parts_of_pickle(place, value, depth)

    def _add_attributes(self, place: str, value: Any, depth: int, hidden: Any = ()) -> None:
        """Add the attributes and the slots of an instance, by name."""
        attribute_value = dict(getattr(value, "__dict__", {}))
        for kind in type(value).__mro__:
            for name, slot in vars(kind).items():
                if isinstance(slot, types.MemberDescriptorType) and hasattr(slot, "__get__"):
                    try:
                        attribute_value[name] = slot.__get__(value, kind)
                    except AttributeError:  # an empty slot
                        continue
        self._add_part(f"{place}.attributes", *sorted(str(name) for name in attribute_value))
        for name in sorted(attribute_value, key=str):
            if name not in hidden:
                self.add_parts(f"{place}.{name}", attribute_value[name], depth)

    def _add_parts_of_pickle(self, place: str, value: Any, depth: int) -> None:
        """Add the parts of an object with state in C, which are those of its pickle."""
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:
            reduced = None
        if isinstance(reduced, str) and _look_up_global(value, reduced) is value:
            self._add_part(f"{place}.name", reduced)
        elif isinstance(reduced, tuple):
            state = [*reduced[:3], None][:3]
            iterators = [*reduced[3:], None, None][:2]
            items = [None if iterator is None else [*iterator] for iterator in iterators]
            for number, entry in enumerate((*state, *items)):
                self.add_parts(f"{place}.pickled[{number}]", entry, depth)
        else:
            wrapped = getattr(value, "__wrapped__", None)
            self._add_unknown(place if wrapped is None else f"{place}.state", value)
            if wrapped is not None:
                self.add_parts(f"{place}.__wrapped__", wrapped, depth)


_DESCRIPTOR_TYPES = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)


def _digest(*words: Any) -> bytes:
    """A digest of some words and numbers, of 32 bytes."""
    return hashlib.blake2b(repr(words).encode("utf-8", "backslashreplace"), digest_size=32).digest()


def _scalar_digest(value: Any) -> bytes | None:
    """A digest of a plain number or word; None of anything else."""
    kind = type(value)
    if kind is float:
        return _digest("float", "nan" if value != value else value + 0.0)
    if kind is complex:
        numbers = (value.real, value.imag)
        return _digest("complex", *("nan" if x != x else x + 0.0 for x in numbers))
    return _digest(kind.__name__, value) if kind in _SCALAR_TYPES else None


def _qualified_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _look_up_global(value: Any, path: str) -> Any:
    """Look up a dotted name in the module of a value; None if the module has none."""
    target: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for name in path.split("."):
        target = getattr(target, name, None)
    return target


def _is_importable(kind: type) -> bool:
    """Whether a module has a class under its name, so that the name identifies the class."""
    return _look_up_global(kind, kind.__qualname__) is kind


def _is_pure_python(kind: type) -> bool:
    """Whether instances of a class hold attributes and slots alone, and no state in C."""
    num_slots = sum(
        isinstance(slot, types.MemberDescriptorType)
        for base in kind.__mro__
        for slot in vars(base).values()
    )
    num_pointers = num_slots + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    max_size = object.__basicsize__ + num_pointers * np.dtype(np.intp).itemsize
    return kind.__itemsize__ == 0 and kind.__basicsize__ <= max_size and kind is not object


def _is_masked(value: Any) -> bool:
    return isinstance(value, np.ma.MaskedArray)


def _iterate_built_in(value: Any) -> Iterator:
    """Iterate over the members of a built-in container, without code of a subclass."""
    kind: Any = next(base for base in _BUILT_IN_TYPES if isinstance(value, base))
    return kind.__iter__(value)


def _canonical_bytes(array: np.ndarray) -> bytes:
    """The bytes of an array, in which NaN has one form, and zero no sign."""
    if array.dtype.kind == "c":
        return _canonical_bytes(np.real(array)) + _canonical_bytes(np.imag(array))
    if array.dtype.kind == "f":
        if array.dtype.itemsize > 8:  # of which some bytes are padding
            high = array.astype(np.float64)
            with np.errstate(invalid="ignore"):
                return _canonical_bytes(high) + _canonical_bytes((array - high).astype(np.float64))
        array = np.where(np.isnan(array), np.nan, array + 0).astype(array.dtype)
    return array.tobytes() if array.dtype.kind in "biufmMSUV" else repr(array.tolist()).encode()


def _is_plain_data(value: Any) -> bool:
    """Whether a global is plain data rather than a module, a class or a function."""
    plain = np.ndarray | np.generic | bool | int | float | complex | str | bytes
    return isinstance(value, plain) or type(value) in (list, tuple, dict, set, frozenset)


def _global_names_in_code(code: types.CodeType) -> list[str]:
    """The global names that a function and the functions within it look up."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(_global_names_in_code(constant))
    return sorted(names)


def _as_numeric_array(value: Any) -> np.ndarray | None:
    """Convert another library's array, such as that of JAX, to NumPy; None for anything else."""
    if not hasattr(value, "__array__") or not hasattr(value, "dtype"):
        return None
    try:
        array = np.asarray(value)
    except Exception:
        return None
    return None if array.dtype.kind == "O" else array


def _contents_of_frame_or_column(value: Any) -> dict[str, Any] | None:
    """The cells, types and names of a frame, a column or an index; None for anything else."""
    contents_of_library = {
        "pyarrow": _contents_of_pyarrow,
        "polars": _contents_of_polars,
        "pandas": _contents_of_pandas,
    }
    return contents_of_library[type(value).__module__.partition(".")[0]](value)


def _contents_of_pyarrow(value: Any) -> dict[str, Any] | None:
    """The cells, types and names of a table or a column of pyarrow; None for anything else."""
    if not hasattr(value, "to_pylist"):
        return None
    if not hasattr(value, "schema"):
        return {"type": str(value.type), "cells": value.to_pylist()}
    cells = [column.to_pylist() for column in value.columns]
    return {"schema": str(value.schema), "names": list(value.schema.names), "cells": cells}


def _contents_of_polars(value: Any) -> dict[str, Any] | None:
    """The cells, types and names of a frame or a column of polars; None for anything else."""
    if type(value).__name__ == "DataFrame":
        return {"names": value.columns, "columns": value.get_columns()}
    if type(value).__name__ == "Series":
        return {"name": value.name, "dtype": str(value.dtype), "cells": value.to_list()}
    return None


def _contents_of_pandas(value: Any) -> dict[str, Any] | None:
    """The cells, types and names of an object of pandas; None for anything else."""
    pandas = importlib.import_module("pandas")
    if value is pandas.NaT or value is pandas.NA:
        return {}
    if isinstance(value, pandas.Timestamp | pandas.Timedelta | pandas.Period):
        return {"text": repr(value)}
    if isinstance(value, pandas.DataFrame):
        columns = [value.iloc[:, place] for place in range(value.shape[1])]
        labels = {"names": value.columns, "index": value.index, "attrs": dict(value.attrs)}
        return {**labels, "columns": [[str(column.dtype), column.array] for column in columns]}
    if isinstance(value, pandas.Series):
        labels = {"name": value.name, "index": value.index, "attrs": dict(value.attrs)}
        return {**labels, "dtype": str(value.dtype), "cells": value.array}
    if isinstance(value, pandas.MultiIndex):
        return {"names": list(value.names), "cells": value.tolist()}
    if isinstance(value, pandas.Index):
        return {"names": list(value.names), "dtype": str(value.dtype), "cells": value.array}
    if isinstance(value, pandas.Categorical):
        labels = {"categories": value.categories, "ordered": bool(value.ordered)}
        return {**labels, "cells": np.asarray(value.codes)}
    if isinstance(value, pandas.api.extensions.ExtensionArray):
        return {"dtype": str(value.dtype), "cells": value.tolist()}
    return None
