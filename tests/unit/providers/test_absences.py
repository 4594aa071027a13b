"""When "not found" proves that a machine is gone."""

from kubenode.providers.absences import APART_SECONDS, MOST_REMEMBERED, Absences


def test_a_machine_that_was_never_found_is_never_proven_gone() -> None:
    absences = Absences()
    assert not any(absences.proven("a", now) for now in (0.0, 100.0, 1e6))


def test_a_machine_is_gone_after_two_misses_apart() -> None:
    absences = Absences()
    absences.mark_present("a")
    assert not absences.proven("a", 0.0)
    assert not absences.proven("a", APART_SECONDS - 1)
    assert absences.proven("a", APART_SECONDS)


def test_a_machine_that_is_found_again_is_not_gone() -> None:
    absences = Absences()
    absences.mark_present("a")
    assert not absences.proven("a", 0.0)
    absences.mark_present("a")
    assert not absences.proven("a", 100.0)


def test_what_is_remembered_is_bounded_and_forgetting_proves_nothing() -> None:
    absences = Absences()
    for number in range(MOST_REMEMBERED + 1):
        absences.mark_present(f"m{number}")
    assert not absences.proven("m0", 0.0) and not absences.proven("m0", 1e6)
    assert not absences.proven("m1", 0.0) and absences.proven("m1", 1e6)
