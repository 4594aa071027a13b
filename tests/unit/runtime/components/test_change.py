"""How much a change disturbs, and in which order components go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.runtime.components import wire
from kubenode.runtime.components.change import ComponentForm, change_class, form_of, same
from kubenode.runtime.components.order import DependencyCycle, ordered, unfit, unmet
from kubenode.runtime.components.render import RenderedFile, RenderedFiles, RenderedUnit
from kubenode.runtime.components.wire import UnitState, WireChangeClass, WireDisruptions

NONE, RELOAD, RESTART, DRAIN, REBOOT = WireChangeClass
SOURCE = wire.WireComponentSource("apt", apt=wire.WirePackages([wire.WirePackage("runc", "1")]))
STEPS = WireDisruptions(install=RELOAD, major=REBOOT, minor=DRAIN, patch=RESTART, uninstall=NONE)


def form(version: str = "1.2.3", *, files: str = "", **units: UnitState) -> ComponentForm:
    """files: one letter of content for each of the files /0, /1 ... that are restarted for."""
    made = tuple(RenderedFile(f"/{n}", c, on_change=RESTART) for n, c in enumerate(files))
    run = tuple(RenderedUnit(name, state=state, on_change=RELOAD) for name, state in units.items())
    return ComponentForm(version, SOURCE, STEPS, made, run)


forms = st.builds(
    lambda version, files, state: form(version, files=files, u=state),
    st.sampled_from(["1.2.3", "1.2.4", "1.3.0", "2.0.0"]),
    st.text("ab", max_size=3),
    st.sampled_from(UnitState),
)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        *((None, None, NONE), (None, form(), RELOAD), (form(), None, NONE)),
        *((form(), form(), NONE), (form(), form("1.2.4"), RESTART), (form("1.3"), form(), DRAIN)),
        (form(), form("2.0"), REBOOT),
        (form(files="a"), form(files="b"), RESTART),
        (form(files="a"), form(), RESTART),
        (form(), form(u=UnitState.ACTIVE), RELOAD),
        (form("1.2.3", files="a"), form("1.3.0", files="b"), DRAIN),
    ],
)
def test_the_most_of_what_differs(
    before: ComponentForm, after: ComponentForm, expected: WireChangeClass
) -> None:
    assert change_class(before, after) is expected


@given(forms, forms)
def test_there_and_back_disturb_alike(before: ComponentForm, after: ComponentForm) -> None:
    assert change_class(before, after) is change_class(after, before)


@given(forms, forms)
def test_f35_the_same_content_is_nothing_to_do(before: ComponentForm, after: ComponentForm) -> None:
    assert same(before, after) == (before == after)
    assert same(before, before) and change_class(before, before) is NONE


def test_another_source_of_one_version_is_a_patch() -> None:
    other = wire.WireComponentSource("apt", apt=wire.WirePackages([wire.WirePackage("runc", "2")]))
    rebuilt = ComponentForm("1.2.3", other, STEPS, (), ())
    assert change_class(form(), rebuilt) is RESTART and not same(form(), rebuilt)


def test_the_same_content_from_another_secret_is_the_same() -> None:
    def holding(salt: str) -> ComponentForm:
        return ComponentForm("1", SOURCE, STEPS, (RenderedFile("/a", "x", salt=salt),), ())

    assert same(holding("u1"), holding("u2"))


@pytest.mark.parametrize("state", ["Absent", "Staged", "Installed", "Running"])
def test_what_a_desired_state_leaves_on_the_host(state: str) -> None:
    spec = wire.ComponentSpec("runc", "1.2.3", SOURCE)
    made = form_of(spec, RenderedFiles((), (RenderedUnit("u"),)), state)
    if state in ("Absent", "Staged"):
        assert made is None
        return
    assert made is not None
    assert made.units[0].state == (UnitState.ACTIVE if state == "Running" else UnitState.INACTIVE)
    assert made.units[0].enabled == (state == "Running")


@given(st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdefx"), max_size=3)))
def test_each_after_what_it_depends_on_or_a_cycle_is_named(depends: dict[str, set[str]]) -> None:
    try:
        order = ordered(depends)
    except DependencyCycle as error:
        assert error.names[0] == error.names[-1]
        links = zip(error.names, error.names[1:], strict=False)
        assert all(below in depends[above] for above, below in links)
        return
    assert sorted(order) == sorted(depends)
    for place, name in enumerate(order):
        assert depends[name] & set(depends) <= set(order[:place])


def test_dependencies_that_do_not_hold_are_named() -> None:
    need = [wire.WireDependsOn("runc", ">=1.1.12")]
    spec = wire.ComponentSpec("containerd", "2.1.4", SOURCE, depends_on=need)
    assert unmet(spec, {"runc": "1.1.12"}) == ""
    assert unmet(spec, {}) == "waits for runc"
    assert unmet(spec, {"runc": "1.1.9"}) == "needs runc >=1.1.12, this machine has 1.1.9"


HOST = wire.WireMachineHost("b", "debian-12", "6.1.0-18-amd64", "amd64")


@pytest.mark.parametrize(
    ("requires", "host", "says"),
    [
        (wire.WireRequires(), None, ""),
        (wire.WireRequires(os=["debian-12"], arch=["amd64"], kernel=">=5.10"), HOST, ""),
        (
            wire.WireRequires(os=["ubuntu-24.04"]),
            HOST,
            "requires os ubuntu-24.04, this host is debian-12",
        ),
        (wire.WireRequires(arch=["arm64"]), HOST, "requires arch arm64, this host is amd64"),
        (wire.WireRequires(arch=["arm64"]), None, "requires arch arm64, this host is unknown"),
        (
            wire.WireRequires(kernel=">=6.9"),
            HOST,
            "requires kernel >=6.9, this host has 6.1.0-18-amd64",
        ),
    ],
)
def test_hosts_it_cannot_run_on(
    requires: wire.WireRequires, host: wire.WireMachineHost | None, says: str
) -> None:
    assert unfit(wire.ComponentSpec("x", "1", SOURCE, requires=requires), host) == says


def test_the_api_server_is_the_operators_to_judge() -> None:
    spec = wire.ComponentSpec("x", "1", SOURCE, requires=wire.WireRequires(api_server=">=1.32"))
    assert unfit(spec, HOST) == ""
    assert unfit(spec, HOST, "v1.31.4") == "requires API server >=1.32, this one is v1.31.4"
    assert unfit(spec, HOST, "v1.32.0") == ""
