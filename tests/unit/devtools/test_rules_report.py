"""The rules report keeps the sealed half's table when it must not open the cases."""

import pytest

from devtools.rules_report import table_of

PAGE = """# Title

## Open half

|  | cases |
| --- | ---: |
| all | 299 |

## Sealed half

|  | cases | right |
| --- | ---: | ---: |
| all | 298 | 276 |
| kind=log | 77 | 67 |

## Remaining misses

None.
"""


def test_the_table_below_a_heading_is_returned_row_by_row() -> None:
    assert table_of(PAGE, "Sealed half").table == [["all", "298", "276"], ["kind=log", "77", "67"]]


def test_a_page_without_the_table_is_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match="run make rules-report once"):
        table_of("# Title\n", "Sealed half")
