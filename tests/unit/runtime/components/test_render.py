"""Templates, and what is called what: revisions and configurations."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.runtime.components import wire
from kubenode.runtime.components.hashes import config_hash, revision, text_digests
from kubenode.runtime.components.render import (
    KeyText,
    RenderedFile,
    RenderedFiles,
    TemplateError,
    TextRef,
    fill_in,
    list_placeholders,
    machine_values,
    references,
    rendered,
)

MACHINE = {"name": "sh-113", "labels.kubenode.io/pool": "online"}
SECRET = TextRef("Secret", "registry", "password")
names = st.from_regex(r"[a-z][a-zA-Z0-9.-]{0,8}", fullmatch=True)


def spec(content: Mapping[str, object] | None = None, **more: object) -> wire.ComponentSpec:
    file = {"path": "/etc/x.toml", "content": content or {"inline": "a"}}
    plain: dict[str, object] = {
        "component": "containerd",
        "version": "2.1.4",
        "source": {"type": "apt", "apt": {"packages": [{"name": "containerd.io", "version": "1"}]}},
        "files": [file],
    }
    return wire.spec_of(plain | more)


def filled(template: str) -> str:
    return fill_in(template, {"values": {"pause": "3.10"}, "machine": MACHINE}, "file /etc/x")


def test_placeholders_are_filled_in() -> None:
    assert filled("s = '${values.pause}' # ${machine.name}") == "s = '3.10' # sh-113"
    assert filled("${machine.labels.kubenode.io/pool}") == "online"


@pytest.mark.parametrize("text", ["$HOME", "$$x", "{a}", "$(x)", "$", "a$"])
def test_what_is_no_placeholder_stays(text: str) -> None:
    assert filled(text) == text


def test_an_escaped_one_stays_without_its_escape() -> None:
    assert filled("$${values.pause} $${HOME} $${") == "${values.pause} ${HOME} ${"


@pytest.mark.parametrize(
    "place",
    ["${values.none}", "${machine.uid}", "${HOME}", "${}", "${values.}", "${ values.pause}"],
)
def test_an_unknown_placeholder_is_named(place: str) -> None:
    with pytest.raises(TemplateError) as raised:
        filled(f"x {place} y")
    assert place in str(raised.value) and "file /etc/x" in str(raised.value)


def test_what_a_component_asks_for() -> None:
    unit = {"name": "a.service", "dropIns": [{"name": "x.conf", "content": "E=${machine.zone}"}]}
    text = {"inline": "${values.a} $${values.no} ${machine.labels.k/y}"}
    assert list_placeholders(spec(text, units=[unit])) == [
        ("file /etc/x.toml", "values", "a"),
        ("file /etc/x.toml", "machine", "labels.k/y"),
        ("unit a.service, drop-in x.conf", "machine", "zone"),
    ]
    assert list_placeholders(spec({"secretKey": {"name": "s", "key": "k"}})) == []


@pytest.mark.parametrize(
    "text", ["${machine.uid}", "${machine.labels.}", "${HOME}", "x ${values.a"]
)
def test_what_no_value_can_fill_is_an_error(text: str) -> None:
    with pytest.raises(TemplateError, match=r"file /etc/x\.toml"):
        list_placeholders(spec({"inline": text}))


def test_an_open_placeholder_is_an_error() -> None:
    with pytest.raises(TemplateError, match="not closed"):
        filled("x ${values.pause")


@given(st.dictionaries(names, st.text(max_size=20), max_size=4), st.text(max_size=30))
def test_values_are_put_in_as_they_are(values: dict[str, str], around: str) -> None:
    """What a value holds is never read as a template."""
    around = around.replace("$", "")
    template = around.join(f"${{values.{name}}}" for name in values)
    assert fill_in(template, {"values": values, "machine": {}}, "f") == around.join(values.values())


def test_texts_come_by_reference() -> None:
    wanted = spec({"secretKey": {"name": "registry", "key": "password"}})
    assert references(wanted) == (SECRET,)
    made = rendered(wanted, {"a": "1"}, {}, {SECRET: KeyText("s3cret ${values.a}", "uid-1")})
    assert made.files[0].content == "s3cret 1"
    with pytest.raises(TemplateError, match="Secret registry, key password"):
        rendered(wanted, {}, {}, {})


def test_nothing_secret_is_shown() -> None:
    text = KeyText("s3cret", "uid-1")
    wanted = spec({"secretKey": {"name": "registry", "key": "password"}})
    made = rendered(wanted, {}, {}, {SECRET: text})
    shown = repr([text, made, text_digests({SECRET: text}), config_hash(made)])
    assert "s3cret" not in shown


def test_secrets_are_hashed_under_their_salt() -> None:
    """Equal passwords of two Secrets cannot be told equal, nor tried by who has only the hash."""

    def named(salt: str, content: str = "s3cret") -> tuple[str, str]:
        file = RenderedFile("/etc/x", content, salt=salt)
        digests = text_digests({SECRET: KeyText(content, salt)})
        return config_hash(RenderedFiles((file,))), revision(spec(), {}, "Running", digests)

    both = list(zip(named("u1"), named("u2"), named("u1", "other"), strict=True))
    assert all(len(set(each)) == 3 for each in both)


def test_a_default_that_is_written_out_changes_no_name() -> None:
    """Invariant 11: an operator that writes or knows more defaults rolls nothing."""
    written = spec(
        {"inline": "a", "configMapKey": None},
        healthDeadline="5m",
        requires={"os": [], "apiServer": ""},
        undo={"mode": "Auto"},
        unknownToUs=3,
    )
    assert revision(written, {}, "Running", {}) == revision(spec(), {}, "Running", {})


def test_names_do_not_change_by_themselves() -> None:
    """Fixed for ever under this hash version: another name rolls every machine."""
    made = rendered(spec(), {}, {}, {})
    assert revision(spec(), {"pause": "3.10"}, "Running", {}) == "1-afffb1f62a"
    assert config_hash(made) == "1-5825484c29"


@given(st.permutations([RenderedFile(f"/etc/{n}", n) for n in "abc"]))
def test_the_order_of_files_changes_no_name(files: list[RenderedFile]) -> None:
    assert config_hash(RenderedFiles(tuple(files))) == config_hash(
        RenderedFiles(tuple(sorted(files, key=lambda file: file.path)))
    )


def test_what_is_known_of_a_machine() -> None:
    machine = wire.machine_of(
        {
            "metadata": {"name": "m1", "labels": {"pool": "a"}},
            "spec": {"addresses": ["10.0.0.7"], "failureDomain": "sh-a", "providerID": None},
            "status": {"host": {"os": "debian-12", "arch": "amd64", "bootID": "b"}},
        }
    )
    assert machine_values(machine) == {
        **{"name": "m1", "node": "m1", "zone": "sh-a", "address": "10.0.0.7"},
        **{"os": "debian-12", "arch": "amd64", "labels.pool": "a"},
        **{"nodeLabels": "", "nodeTaints": ""},
    }
    assert "os" not in machine_values(wire.machine_of({"metadata": {"name": "m1"}, "spec": {}}))


@pytest.mark.parametrize(
    ("spec", "taints"),
    [
        ({}, "pool=gpu:NoSchedule"),
        ({"node": "Join"}, "kubenode.io/uninitialized=:NoSchedule,pool=gpu:NoSchedule"),
        ({"origin": "Provision"}, "kubenode.io/uninitialized=:NoSchedule,pool=gpu:NoSchedule"),
    ],
)
def test_labels_and_taints_with_which_a_kubelet_registers(
    spec: dict[str, str], taints: str
) -> None:
    template = {
        "labels": {"rack": "r1", "pool": "gpu"},
        "taints": [
            {"key": "pool", "value": "gpu", "effect": "NoSchedule", "propagation": "Always"}
        ],
    }
    raw = {"providerID": "local://m1", "nodeTemplate": template, **spec}
    values = machine_values(wire.machine_of({"metadata": {"name": "m1"}, "spec": raw}))
    assert values["nodeLabels"] == "pool=gpu,rack=r1"
    assert values["nodeTaints"] == taints
    assert values["providerID"] == "local://m1"
