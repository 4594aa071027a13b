"""A file or key has one owner on a host: of two that want it neither is applied."""

from typing import Any

from support.component_world import CONFIG, ComponentWorld, component

from agent.components.claims import conflicts
from kubenode.runtime.components.change import ComponentForm
from kubenode.runtime.components.render import RenderedDropIn, RenderedFile, RenderedUnit
from kubenode.runtime.components.wire import Ownership, WireComponentSource, WireDisruptions

OTHER = "/etc/registry.toml"


def form(*files: RenderedFile, units: tuple[RenderedUnit, ...] = ()) -> ComponentForm:
    return ComponentForm("1", WireComponentSource(type="script"), WireDisruptions(), files, units)


def whole(path: str, content: str = "a = 1") -> RenderedFile:
    return RenderedFile(path, content)


def keys(path: str, content: str) -> RenderedFile:
    return RenderedFile(path, content, ownership=Ownership.KEYS)


def test_a_file_of_two_components_is_named_to_both_with_what_to_do() -> None:
    found = conflicts({"a": form(whole("/etc/x"), whole("/etc/y")), "b": form(whole("/etc/x"))})
    assert found["a"].startswith("/etc/x is b's too: ") and "leave it to one" in found["a"]
    assert found["b"].startswith("/etc/x is a's too: ")


def test_keys_of_one_file_have_each_their_owner() -> None:
    def told(one: str, other: str, suffix: str = "toml") -> str:
        path = f"/etc/x.{suffix}"
        return conflicts({"a": form(keys(path, one)), "b": form(keys(path, other))}).get("a", "")

    assert told("a = 1\n[t]\nb = 1", "c = 1\n[t]\nd = 1") == ""
    assert "key t.b of /etc/x.toml is b's too" in told("[t]\nb = 1", "[t]\nb = 1")
    assert "key t.b of /etc/x.toml is b's too" in told("[t]\nb = 1", "t = 1"), "all of t"
    assert told('{"a": {"b": 1}}', '{"a": {"c": 1}}', "json") == ""
    assert "/etc/x.json is b's too" in told("{", '{"a": 1}', "json"), "what cannot be read"


def test_a_whole_file_has_all_its_keys_and_a_drop_in_is_a_file() -> None:
    a, b = form(keys("/etc/x.toml", "a = 1")), form(whole("/etc/x.toml"))
    assert conflicts({"a": a, "b": b}).keys() == {"a", "b"}
    unit = RenderedUnit("u.service", drop_ins=(RenderedDropIn("10.conf", "[Service]"),))
    path = "/etc/systemd/system/u.service.d/10.conf"
    assert path in conflicts({"a": form(units=(unit,)), "b": form(whole(path))})["b"]
    assert not conflicts({"a": form(units=(unit,)), "b": form(whole(f"{path}.bak"))})


def test_of_many_some_are_named() -> None:
    files = [whole(f"/etc/{i}") for i in range(9)]
    told = conflicts({"a": form(*files), "b": form(*files)})["a"]
    assert "/etc/4 is b's too and 4 more" in told and "/etc/5" not in told


def registry(version: str, *paths: str, **spec: Any) -> dict[str, Any]:
    files = [{"path": path, "content": {"inline": version}, "onChange": "None"} for path in paths]
    return component(version, "registry", files=files, units=[], **spec)


async def test_of_two_new_components_neither_is_applied() -> None:
    world = ComponentWorld()
    world.assign(component())
    world.assign(registry("1.0.0", CONFIG))
    await world.rounds(60)
    told = {one.name: (one.state, one.reason) for one in world.told}
    blocked = ("Blocked", "FileConflict")
    assert told == {"containerd": blocked, "registry": blocked}
    assert f"{CONFIG} is registry's too" in world.status("containerd").message
    assert world.parts.packages.installs == 0 and CONFIG not in world.parts.files.files
    world.assign(registry("1.0.1", OTHER))
    await world.rounds(120)
    assert (world.state("containerd"), world.state("registry")) == ("Healthy", "Healthy")


async def test_what_was_applied_before_stays_and_is_looked_after() -> None:
    world = ComponentWorld()
    world.assign(component())
    await world.rounds(90)
    before = world.parts.files.files[CONFIG]
    world.assign(registry("1.0.0", CONFIG))
    await world.rounds(60)
    assert world.state("containerd") == "Healthy"
    assert world.status("registry").reason == "FileConflict"
    assert world.parts.files.files[CONFIG] == before


async def test_a_file_goes_to_another_component_once_the_first_has_let_it_go() -> None:
    world = ComponentWorld()
    world.assign(component())
    await world.rounds(90)
    world.assign(registry("1.0.0", CONFIG))
    world.assign(component("2.1.4", files=[]))
    await world.rounds(60)
    assert world.status("containerd").needs == "Restart"
    assert world.state("registry") == "Staged"
    assert "waits for containerd, which still has" in world.status("registry").message
    world.allow("containerd")
    await world.rounds(150)
    assert (world.state("containerd"), world.state("registry")) == ("Healthy", "Healthy")
    assert world.parts.files.files[CONFIG].content == b"1.0.0"
