"""JSON. It has no comments to lose. A changed file is written with its own indentation."""

import json
import re
from typing import Any

_INDENT = re.compile(r"\n([ \t]+)\"")


class Json:
    def parse(self, text: str) -> dict[str, Any]:
        if not text.strip():
            return {}
        read = json.loads(text, object_pairs_hook=_once)
        if not isinstance(read, dict):
            raise ValueError("it holds no object, so it has no keys")
        return read

    def set(self, text: str, path: tuple[str, ...], value: Any) -> str:
        read = self.parse(text)
        within = read
        for key in path[:-1]:
            if not isinstance(within.get(key), dict):
                within[key] = {}
            within = within[key]
        within[path[-1]] = value
        return _written(read, text)

    def drop(self, text: str, path: tuple[str, ...]) -> str:
        read = self.parse(text)
        containers = [read]
        for key in path[:-1]:
            containers.append(containers[-1][key])
        for within, key in zip(reversed(containers), reversed(path), strict=True):
            if within is containers[-1] or within[key] == {}:
                del within[key]
        return _written(read, text)


def _written(value: Any, before: str) -> str:
    match = _INDENT.search(before)
    return json.dumps(value, indent=match[1] if match else 2, ensure_ascii=False) + "\n"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        twice = next(key for key, _ in pairs if [k for k, _ in pairs].count(key) > 1)
        raise ValueError(f"key {twice!r} is there twice")
    return read
