"""A folder of consecutive pairs comes in; growth curves go out, a row per series and frame.

It reads the table and the maps of created and destroyed mass. It draws nothing.
"""

from pairframe.analysis.series.flags import FRAME_FLAGS
from pairframe.analysis.series.table import SeriesRule, series_table

__all__ = ["FRAME_FLAGS", "SeriesRule", "series_table"]
