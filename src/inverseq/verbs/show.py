"""show: what is in a log, as tables."""

from __future__ import annotations

from inverseq.demonstrations import Demonstrations
from inverseq.io.overview import Overview, overview
from inverseq.report import Column, Table


def tables(seen: Demonstrations, name: str) -> list[Table]:
    """What is in demonstrations, and what became of the rows that they were read from.

    >>> log = {"place": ["a", "b", None, "b"], "move": ["go", "back", "go", "back"]}
    >>> seen = Demonstrations.from_table(log, state="place", action="move", on_bad="drop")
    >>> [table.caption for table in tables(seen, "log.csv")]
    ['What is in log.csv', 'Bad rows, left out', 'Remarks']
    """
    return tables_of(overview(seen), name)


def tables_of(said: Overview, name: str) -> list[Table]:
    """The same of an overview that is there."""
    found = [Table(["", ""], said.rows(), f"What is in {name}")]
    reading = said.reading
    if reading is None:
        return found
    figures = [Column(head, numeric=True) for head in ("rows", "first row")]
    for title, findings in ("Bad rows, left out", reading.bad), ("Remarks", reading.remarks):
        if findings:
            kinds = [(f.kind, f"{f.rows:,}", f"{f.first:,}", f.means) for f in findings]
            found.append(Table(["kind", *figures, "what it means"], kinds, title))
    return found
