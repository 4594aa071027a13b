"""Protobuf message classes from a table of fields, built at run time.

The contract needs few messages, so no code is generated: a table is shorter than generated modules,
and it does not depend on the version of a generator.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Fields = Mapping[str, str]
"""Fields of a message by name: `NUMBER TYPE`, with `repeated` or `map` before the type.

A type is a scalar or the name of another message of the table. The keys of a map are strings.
"""

_Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "bytes": _Field.TYPE_BYTES,
    "int32": _Field.TYPE_INT32,
    "string": _Field.TYPE_STRING,
}


def build_messages(package: str, table: Mapping[str, Fields]) -> dict[str, Any]:
    """Return the class of each message of the table, by its name."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3"
    )
    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for field, text in fields.items():
            _add_field(message, f".{package}", field, text)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in table
    }


def _add_field(message: Any, scope: str, name: str, text: str) -> None:
    number, *label, type_ = text.split()
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if label:
        field.label = _Field.LABEL_REPEATED
    if label != ["map"]:
        _set_type(field, scope, type_)
        return
    entry = message.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry")
    entry.options.map_entry = True
    _add_field(entry, scope, "key", "1 string")
    _add_field(entry, scope, "value", f"2 {type_}")
    _set_type(field, f"{scope}.{message.name}", entry.name)


def _set_type(field: Any, scope: str, type_: str) -> None:
    if type_ in SCALARS:
        field.type = SCALARS[type_]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f"{scope}.{type_}"
