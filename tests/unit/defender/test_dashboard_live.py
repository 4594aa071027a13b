"""What is sent to those who watch: only what they lack."""

from dataclasses import dataclass
from typing import ClassVar

from defender.dashboard.scene import Scene
from kubenode.runtime.site.live import ClientPosition, Feed
from kubenode.runtime.site.parts import View

NO_SCENE: Scene = None  # type: ignore[assignment]  # the views of these tests read none


@dataclass(frozen=True)
class Thing:
    template: ClassVar[str] = "none"
    key: str
    text: str = ""


class Feeding:
    """A feed over what a test says, which counts how often parts are rendered."""

    def __init__(self, **slots: list[Thing]) -> None:
        self.view: View = slots
        self.rendered: list[str] = []
        self.feed: Feed[Scene] = Feed(lambda scene: self.view, self._render)

    def _render(self, model: object) -> str:
        assert isinstance(model, Thing)
        self.rendered.append(model.key)
        return f"<p>{model.text}</p>"

    def becomes(self, **slots: list[Thing]) -> bool:
        self.view = slots
        self.rendered.clear()
        return self.feed.refresh(NO_SCENE)


def test_what_did_not_change_is_neither_rendered_nor_sent() -> None:
    feeding = Feeding()
    feeding.becomes(a=[Thing("1", "x"), Thing("2", "y")])
    seen = feeding.feed.number
    assert not feeding.becomes(a=[Thing("1", "x"), Thing("2", "y")])
    assert feeding.rendered == []
    assert feeding.becomes(a=[Thing("1", "x"), Thing("2", "z")])
    assert feeding.rendered == ["2"]
    assert feeding.feed.since(seen) == {"a": {"html": {"2": "<p>z</p>"}}}


def test_a_part_that_goes_or_moves_changes_the_order() -> None:
    feeding = Feeding()
    feeding.becomes(a=[Thing("1"), Thing("2")])
    seen = feeding.feed.number
    feeding.becomes(a=[Thing("2"), Thing("1")])
    assert feeding.feed.since(seen) == {"a": {"keys": ["2", "1"]}}
    feeding.becomes(a=[Thing("1")])
    assert feeding.feed.since(seen) == {"a": {"keys": ["1"]}}


def test_one_who_missed_much_is_sent_each_part_once_as_it_is_now() -> None:
    feeding = Feeding()
    feeding.becomes(a=[Thing("1", "0")])
    seen = feeding.feed.number
    for number in range(1, 20):
        feeding.becomes(a=[Thing("1", str(number))], b=[Thing("9", "same")])
    assert feeding.feed.since(seen) == {
        "a": {"html": {"1": "<p>19</p>"}},
        "b": {"html": {"9": "<p>same</p>"}, "keys": ["9"]},
    }


def test_one_who_has_seen_nothing_is_sent_everything() -> None:
    feeding = Feeding()
    feeding.becomes(a=[Thing("1", "x")], b=[])
    assert feeding.feed.since(-1) == {
        "a": {"html": {"1": "<p>x</p>"}, "keys": ["1"]},
        "b": {"keys": []},
    }
    assert feeding.feed.layout(-1) == ["a", "b"]


def test_other_slots_are_told_as_another_layout() -> None:
    feeding = Feeding()
    feeding.becomes(a=[])
    seen = feeding.feed.number
    assert feeding.feed.layout(seen) == []
    assert feeding.becomes(a=[], b=[])
    assert feeding.feed.layout(seen) == ["a", "b"]


def test_what_a_client_says_it_has_seen_is_believed_only_in_its_form() -> None:
    assert ClientPosition.read("ab12.7") == ClientPosition("ab12", 7)
    for text in ("", "7", ".7", "ab.", "ab.-1", "ab.7x", "a" * 50 + ".1"):
        assert ClientPosition.read(text) == ClientPosition()
