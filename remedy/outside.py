"""The file of `--receivers-file`: receivers of notifications and objects that jobs may create.

No rule or job contains an address or a kind of object: it names an entry of this file, so that
authors of rules reach no further than the operator allows.
"""

import ssl
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, StringConstraints

from kubenode.api.base import Model
from remedy.handover.settings import ObjectTemplate
from remedy.notify.secret import SecretUnreadable, read
from remedy.notify.settings import Receiver
from remedy.notify.texts import BadTemplate, compiled, texts

Name = Annotated[
    str, StringConstraints(min_length=1, max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
]
Path = tuple[str | int, ...]


class Outside(Model):
    cluster: str = Field(default="", max_length=128)
    """How people and programs are told which cluster it is."""
    receivers: dict[Name, Receiver] = Field(default_factory=dict, max_length=64)
    objects: dict[Name, ObjectTemplate] = Field(default_factory=dict, max_length=64)


def faults(outside: Outside) -> Iterator[tuple[Path, str]]:
    """Yield errors that the schema does not show: missing secrets, invalid templates, addresses
    that apprise does not know. Each has the path of its field, and no secret.
    """
    for name, receiver in outside.receivers.items():
        here: Path = ("receivers", name)
        for part in ("title", "body"):
            if (text := getattr(receiver, part)) is not None:
                try:
                    texts(**{part: text})
                except BadTemplate as error:
                    yield (*here, part), f"{error}: correct it, or leave it out"
        yield from _addresses(here, receiver)
    for name, template in outside.objects.items():
        yield from _templates(("objects", name), template)


def _addresses(here: Path, receiver: Receiver) -> Iterator[tuple[Path, str]]:
    for number, url in enumerate(receiver.apprise.urls if receiver.apprise is not None else ()):
        from remedy.notify.people import instantiated  # the import takes a second

        try:
            instantiated(read(url), 1.0)
        except SecretUnreadable as error:
            yield (*here, "apprise", "urls", number), str(error)
    http = receiver.http
    if http is None:
        return
    method = "webhook" if receiver.webhook is not None else "cloudEvents"
    if http.ca_file is not None:
        try:
            ssl.create_default_context(cafile=http.ca_file)
        except OSError as error:
            why = error.strerror or "no certificate in PEM"
            yield (*here, method, "caFile"), f"{http.ca_file}: {why}: name a file of certificates"
    secrets = {"url": http.url} | {f"headers.{name}": value for name, value in http.headers.items()}
    for field, value in secrets.items():
        try:
            read(value)
        except SecretUnreadable as error:
            yield (*here, method, *field.split(".", 1)), str(error)


def _templates(here: Path, template: ObjectTemplate) -> Iterator[tuple[Path, str]]:
    for path, text in _texts((), template.to_dict()):
        try:
            compiled(text)
        except BadTemplate as error:
            yield (*here, *path), f"{error}: correct it"


def _texts(path: Path, value: object) -> Iterator[tuple[Path, str]]:
    match value:
        case str():
            yield path, value
        case dict():
            for key, inner in value.items():
                yield from _texts((*path, key), inner)
        case list():
            for number, inner in enumerate(value):
                yield from _texts((*path, number), inner)
        case _:
            return
