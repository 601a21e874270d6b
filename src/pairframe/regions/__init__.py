"""REGIONS: label images and results come in, the mass that flows between labels and the lineage of objects go out.

Flows are read from the potentials that every result keeps; nothing is solved for them again. Identities are proposals
with the share of mass that supports them. It must not know about reports or the command line.
"""

from pairframe.regions.export import write_ctc, write_geff
from pairframe.regions.flow_table import FLOW_COLUMNS, flow_table
from pairframe.regions.labels import CREATED, DESTROYED, MAX_LABELS, UNLABELLED
from pairframe.regions.lineage import Lineage, lineage
from pairframe.regions.links import LINK_COLUMNS, LinkRule
from pairframe.regions.objects import OBJECT_COLUMNS

__all__ = [
    "CREATED",
    "DESTROYED",
    "FLOW_COLUMNS",
    "LINK_COLUMNS",
    "MAX_LABELS",
    "OBJECT_COLUMNS",
    "UNLABELLED",
    "Lineage",
    "LinkRule",
    "flow_table",
    "lineage",
    "write_ctc",
    "write_geff",
]
