"""The store: versions grow, the past can be asked for until it is forgotten, watches see all."""

from simulation.apiserver.errors import Obj
from simulation.apiserver.registry import Registry
from simulation.apiserver.selectors import Selection, parse_fields, parse_labels
from simulation.apiserver.store import Record, Store, StoreEvent

PODS = Registry().named("pods")
ALL = Selection()


def pod(name: str, node: str = "", **labels: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "one", "uid": f"uid-{name}", "labels": labels},
        "spec": {"nodeName": node},
    }


def owned(name: str, *owners: str) -> Obj:
    obj = pod(name)
    obj["metadata"]["ownerReferences"] = [{"uid": uid} for uid in owners]
    return obj


class Ear:
    """A watch that keeps what it was offered, as it would see it."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.heard: list[tuple[str | None, str, int]] = []
        self.closed = False

    def offer(self, event: StoreEvent) -> None:
        kind = event.classify_for(self.selection)
        self.heard.append((kind, event.record.key[1], event.rv))

    def close(self) -> None:
        self.closed = True


def names(records: list[Record]) -> list[str]:
    return [record.key[1] for record in records]


def test_every_write_has_a_newer_version_and_its_json_says_so() -> None:
    store = Store(1000)
    first = store.commit("pods", "ADDED", pod("a"))
    second = store.commit("pods", "MODIFIED", pod("a"))
    gone = store.commit("pods", "DELETED", pod("a"))
    assert (first.rv, second.rv, gone.rv) == (1001, 1002, 1003)
    assert b'"resourceVersion":"1003"' in gone.raw
    assert store.collection("pods").get(("one", "a")) is None


def test_a_commit_changes_nothing_that_it_was_given() -> None:
    given = pod("a")
    Store(1).commit("pods", "ADDED", given)
    assert "resourceVersion" not in given["metadata"]


def test_a_list_is_in_key_order_and_keeps_to_its_selection() -> None:
    store = Store(1)
    for name in ("c", "a", "b"):
        store.commit("pods", "ADDED", pod(name, app=name))
    pods = store.collection("pods")
    assert names(pods.sorted(ALL)) == ["a", "b", "c"]
    assert names(pods.sorted(Selection(labels=parse_labels("app in (b,c)")))) == ["b", "c"]
    assert names(pods.sorted(Selection("one", "b"))) == ["b"]
    assert names(pods.sorted(Selection("two"))) == []


def test_a_list_can_be_had_as_it_was() -> None:
    store = Store(1)
    store.commit("pods", "ADDED", pod("stays"))
    store.commit("pods", "ADDED", pod("goes"))
    then = store.commit("pods", "ADDED", pod("changes", old="yes")).rv
    store.commit("pods", "DELETED", pod("goes"))
    store.commit("pods", "MODIFIED", pod("changes", old="no"))
    store.commit("pods", "MODIFIED", pod("changes", old="really no"))
    store.commit("pods", "ADDED", pod("new"))
    pods = store.collection("pods")
    assert names(pods.sorted_at(ALL, then)) == ["changes", "goes", "stays"]
    assert names(pods.sorted_at(Selection(labels=parse_labels("old=yes")), then)) == ["changes"]
    assert names(pods.sorted(ALL)) == ["changes", "new", "stays"]


def test_the_past_is_forgotten_when_the_ring_is_full() -> None:
    store = Store(100, history=3)
    pods = store.collection("pods")
    assert pods.floor == 100
    for n in range(5):
        store.commit("pods", "ADDED", pod(f"p{n}"))
    assert pods.floor == 102, "the last event that was pushed out"
    assert [event.rv for event in pods.missed(102)] == [103, 104, 105]


def test_compaction_forgets_all_of_it() -> None:
    store = Store(100)
    last = store.commit("pods", "ADDED", pod("a")).rv
    store.collection("pods").forget_history()
    assert store.collection("pods").floor == last
    assert list(store.collection("pods").missed(last)) == []


def test_entering_a_selection_is_added_and_leaving_it_deleted() -> None:
    store = Store(0)
    ear = Ear(Selection(labels=parse_labels("w=1")))
    store.collection("pods").listen(ear)
    store.commit("pods", "ADDED", pod("a", w="2"))
    store.commit("pods", "MODIFIED", pod("a", w="1"))
    store.commit("pods", "MODIFIED", pod("a", "n1", w="1"))
    store.commit("pods", "MODIFIED", pod("a", w="2"))
    store.commit("pods", "DELETED", pod("a", w="2"))
    assert [kind for kind, _, _ in ear.heard] == [None, "ADDED", "MODIFIED", "DELETED", None]


def test_what_left_a_selection_is_shown_as_it_was_with_the_new_version() -> None:
    store = Store(0)
    store.commit("pods", "ADDED", pod("a", w="1"))
    store.commit("pods", "MODIFIED", pod("a", w="2"))
    (event,) = store.collection("pods").missed(1)
    shown = event.shown_as("DELETED")
    assert shown.obj["metadata"]["labels"] == {"w": "1"}
    assert shown.obj["metadata"]["resourceVersion"] == "2"


def test_a_watch_of_one_node_hears_only_of_it() -> None:
    store = Store(0)
    one, two = (
        Ear(Selection(fields=parse_fields(f"spec.nodeName={node}", PODS))) for node in ("n1", "n2")
    )
    for ear in (one, two):
        store.collection("pods").listen(ear)
    store.commit("pods", "ADDED", pod("a", "n1"))
    store.commit("pods", "ADDED", pod("b", "n2"))
    store.commit("pods", "ADDED", pod("c", "n3"))
    assert [name for _, name, _ in one.heard] == ["a"]
    assert [name for _, name, _ in two.heard] == ["b"]
    store.commit("pods", "MODIFIED", pod("a", "n2"))
    assert one.heard[-1][:2] == ("DELETED", "a")
    assert two.heard[-1][:2] == ("ADDED", "a")


def test_a_closed_watch_hears_nothing_more_and_leaves_nothing() -> None:
    store = Store(0)
    pods = store.collection("pods")
    ears = [Ear(ALL), Ear(Selection(fields=parse_fields("spec.nodeName=n1", PODS)))]
    for ear in ears:
        pods.listen(ear)
    for ear in ears:
        pods.unlisten(ear)
    store.commit("pods", "ADDED", pod("a", "n1"))
    assert [ear.heard for ear in ears] == [[], []]
    assert pods.listeners() == []


def test_a_resource_that_is_no_longer_served_ends_its_watches() -> None:
    store = Store(0)
    ear = Ear(ALL)
    store.collection("foos.example.com").listen(ear)
    store.drop("foos.example.com")
    assert ear.closed


def test_dependents_are_found_by_the_uid_of_their_owner() -> None:
    store = Store(0)
    store.commit("pods", "ADDED", owned("child", "u1", "u2"))
    assert store.dependents("u1") == [("pods", ("one", "child"))]
    store.commit("pods", "MODIFIED", owned("child", "u2"))
    assert store.dependents("u1") == []
    assert store.dependents("u2") == [("pods", ("one", "child"))]
    store.commit("pods", "DELETED", owned("child", "u2"))
    assert store.dependents("u2") == []
    assert store.by_uid == {}


def test_an_item_of_a_list_does_not_repeat_its_kind() -> None:
    record = Store(0).commit("pods", "ADDED", pod("a"))
    assert record.raw.startswith(b'{"apiVersion":"v1","kind":"Pod","metadata":')
    assert record.item.startswith(b'{"metadata":')


def test_reverted_store_holds_the_snapshot_ends_watches_and_counts_on_from_it() -> None:
    store = Store(100)
    store.commit("pods", "ADDED", owned("a", "owner"))
    backup = store.snapshot()
    store.commit("pods", "DELETED", owned("a", "owner"))
    store.commit("pods", "ADDED", pod("b"))
    pods, ear = store.collection("pods"), Ear(ALL)
    pods.listen(ear)
    store.revert(backup)
    assert ear.closed
    assert [record.key[1] for record in pods.records()] == ["a"]
    assert (store.rv, pods.floor) == (backup.rv, backup.rv)
    assert set(store.by_uid) == {"uid-a"}
    assert store.dependents("owner") == [("pods", ("one", "a"))]
    assert store.commit("pods", "ADDED", pod("c")).rv == backup.rv + 1
    assert [record.key[1] for record in pods.sorted(ALL)] == ["a", "c"]
