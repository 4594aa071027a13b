"""Reads the settings of a program: flags, then KUBENODE_* variables, then a file, then defaults.

All values are validated once, at start, by pydantic. A wrong value ends the process with a sentence
that names the flag, the variable or the place in the file, the value, and what is allowed. The
agent does not load this module, because of pydantic.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from kubenode.runtime.process import CannotStart
from kubenode.runtime.settings_model import (
    ProcessSettings,
    declared,
    flag_of,
    key_of,
    spec_of,
    variable_of,
)

S = TypeVar("S", bound=ProcessSettings)


class SettingsError(CannotStart):
    """Invalid settings, one line for each."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The content of a file of settings.

    values: by key, such as `logLevel`
    place: returns the place of a key, `file:line:column`
    """

    values: Mapping[str, object]
    place: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class GivenValue:
    """A value with its source, as error messages name it."""

    value: object
    source: str


def load(
    kind: type[S],
    flags: Mapping[str, Any] | None = None,
    file: SettingsFile | None = None,
    environ: Mapping[str, str] | None = None,
) -> S:
    """Read the settings of a program. Raises SettingsError.

    flags: by the name of the field; None is a flag that was not given
    environ: None: the environment of the process
    """
    known = declared(kind)
    given = {
        **_file_values(known, file),
        **_variable_values(known, os.environ if environ is None else environ),
        **_flag_values(flags or {}),
    }
    problems = [*_unknown_keys(known, file), *_unknown_flags(known, flags or {})]
    given = {name: each for name, each in given.items() if name in known}
    problems += _misplaced_booleans(known, given)
    try:
        values = {name: each.value for name, each in given.items()}
        settings = TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        problems += [_invalid(known, given, each) for each in error.errors()]
        raise SettingsError("\n".join(problems)) from error
    problems += _unusable(known, given, settings)
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _file_values(
    known: Mapping[str, Field[Any]], file: SettingsFile | None
) -> dict[str, GivenValue]:
    if file is None:
        return {}
    keys = {name: key_of(name) for name in known}
    return {
        name: GivenValue(file.values[key], f"{file.place(key)}: {key}")
        for name, key in keys.items()
        if key in file.values
    }


def _variable_values(
    known: Mapping[str, Field[Any]], environ: Mapping[str, str]
) -> dict[str, GivenValue]:
    """Return the values of variables. Other programs have other variables, which are ignored."""
    upper = {name.upper(): value for name, value in environ.items()}
    names = {name: variable_of(name) for name in known}
    return {name: GivenValue(upper[v], v) for name, v in names.items() if v in upper}


def _flag_values(flags: Mapping[str, Any]) -> dict[str, GivenValue]:
    return {
        name: GivenValue(value, flag_of(name)) for name, value in flags.items() if value is not None
    }


def _unknown_keys(known: Mapping[str, Field[Any]], file: SettingsFile | None) -> Iterator[str]:
    keys = [key_of(name) for name in known]
    if file is not None:
        unknown = (key for key in file.values if key not in keys)
        yield from (_unknown(f"{file.place(key)}: ", key, keys) for key in unknown)


def _unknown_flags(known: Mapping[str, Field[Any]], flags: Mapping[str, Any]) -> Iterator[str]:
    for name in flags.keys() - known.keys():
        yield _unknown("", flag_of(name), [flag_of(name) for name in known])


def _unknown(place: str, name: str, names: Sequence[str]) -> str:
    close = get_close_matches(name, names, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{place}{name}: there is no such setting{hint}; there are: {', '.join(sorted(names))}"


def _misplaced_booleans(
    known: Mapping[str, Field[Any]], given: Mapping[str, GivenValue]
) -> Iterator[str]:
    """Yield the error for each boolean where a number is needed. Pydantic reads it as 0 or 1."""
    for name, each in given.items():
        if isinstance(each.value, bool) and _is_number(known[name]):
            yield _line(known[name], each, "input should be a number")


def _is_number(field: Field[Any]) -> bool:
    return field.type in (int, float, int | None, float | None)


def _invalid(known: Mapping[str, Field[Any]], given: Mapping[str, GivenValue], problem: Any) -> str:
    name = problem["loc"][0]
    return _line(known[name], given[name], problem["msg"][:1].lower() + problem["msg"][1:])


def _unusable(
    known: Mapping[str, Field[Any]], given: Mapping[str, GivenValue], settings: ProcessSettings
) -> Iterator[str]:
    """Yield the errors of the settings' own checks."""
    for name, each in given.items():
        value = getattr(settings, name)
        if value is None or (check := spec_of(known[name]).check) is None:
            continue
        try:
            check(value)
        except ValueError as error:
            yield _line(known[name], each, str(error))


def _line(field: Field[Any], each: GivenValue, problem: str) -> str:
    names = [variable_of(field.name), f"{key_of(field.name)} in the file of --config"]
    if spec_of(field).panel:
        names.insert(0, flag_of(field.name))
    text = field.metadata["description"].rstrip(".")
    return f"{each.source}={each.value!r}: {problem}; set {' or '.join(names)} ({text})"
