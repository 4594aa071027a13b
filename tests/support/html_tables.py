"""The tables of an HTML page as texts."""

from html.parser import HTMLParser


class _TableReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.tables[-1][-1][-1] += data


def read_tables(html: str) -> dict[str, list[list[str]]]:
    """Return the rows below the headings, by the headings joined with commas. A later table with
    the same headings replaces an earlier one.
    """
    reader = _TableReader()
    reader.feed(html)
    return {", ".join(table[0]): table[1:] for table in reader.tables}
