"""Pictures and pages, drawn from what was found; nothing here trains."""

from inverseq.report.maps import Panel, draw

__all__ = ["Panel", "draw"]
