"""The diagram of a job's phases shows the table that the code obeys."""

import re

from devtools.job_states import FILE, main, page
from kubenode.api.v1alpha1 import JobPhase
from remedy.job.step import EDGES


def test_every_edge_is_drawn_and_no_other() -> None:
    drawn = set(re.findall(r"^    (\w+) --> (\w+)", page(), re.M))
    assert drawn == {(str(a), str(b)) for a in EDGES for b in EDGES[a]}
    assert all(JobPhase.CANCELLED in EDGES[a] for a in EDGES if not a.closed)


def test_the_page_is_what_the_generator_writes_now() -> None:
    assert FILE.read_text() == page()
    assert main(["--check"]) == 0
