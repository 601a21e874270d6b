"""Values as plain JSON, which has neither NaN nor infinity, and JSON as values."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np


def parse(text: str | bytes | bytearray) -> Any:
    """The values in a JSON text; a ValueError for every text that is not JSON or is nested too deeply to be read."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def plain(value: Any) -> Any:
    """Plain JSON values for pages and files: NaN becomes null, an infinity the text ``inf`` or ``-inf``."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def exact(value: Any) -> Any:
    """A scalar that `float` reads back: NaN and infinities become text, as in the Zarr specification."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
