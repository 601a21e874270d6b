"""A folder of results comes in; `report.html` and a page per pair go out, which need no network and no server.

Strings in a result are untrusted: they reach a page as escaped text or as JSON, never as markup.
It solves nothing and changes nothing in the store.
"""

from pairframe.report.html.analysis_write import write_analysis
from pairframe.report.html.contact_write import write_contact_sheet
from pairframe.report.html.series_write import write_series
from pairframe.report.html.write import write_report

__all__ = ["write_analysis", "write_contact_sheet", "write_report", "write_series"]
