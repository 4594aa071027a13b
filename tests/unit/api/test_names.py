"""Messages name the first of many and count the others."""

from kubenode.api.names import list_first


def test_names_keep_their_order_and_the_rest_is_counted() -> None:
    assert list_first([], 2) == ""
    assert list_first(["b", "a"], 2) == "b, a"
    assert list_first(iter("bac"), 2) == "b, a and 1 more"
    assert list_first("abcd", 1, " (-o json)") == "a and 3 more (-o json)"
