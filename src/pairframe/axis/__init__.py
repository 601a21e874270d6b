"""AXIS: a mask or a result comes in, coordinates along its body and profiles along them go out.

It must not know how results are kept, drawn or compared.
"""

from pairframe.axis.body_axis import BodyAxis, body_axis
from pairframe.axis.profile import axis_profile, radial_profile
from pairframe.axis.table import PROFILES_NAME, axis_rows, axis_table

__all__ = ["PROFILES_NAME", "BodyAxis", "axis_profile", "axis_rows", "axis_table", "body_axis", "radial_profile"]
