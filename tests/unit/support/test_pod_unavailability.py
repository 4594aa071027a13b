from support.pod_unavailability import PodUnavailability


def test_missing_pods_count_for_the_node_that_changed_last() -> None:
    watch = PodUnavailability({"web": 2, "store": 2})
    watch.sample({"web": 2, "store": 2}, "", 0.0)
    watch.sample({"web": 1, "store": 2}, "a", 1.0)
    watch.sample({"web": 1, "store": 1}, "", 2.0)
    watch.sample({"web": 3, "store": 2}, "", 4.0)
    assert watch.lost == {"a": 1.0 + 4.0}
    assert watch.fewest == {"web": 1, "store": 1}
