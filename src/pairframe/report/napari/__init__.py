"""pairframe in napari: a reader for results, a widget that compares two layers, and sample data. See ``napari.yaml``."""

from pairframe.report.napari.layers import displacement_vectors as displacement_vectors
from pairframe.report.napari.layers import result_layers as result_layers
from pairframe.report.napari.layers import stacked_layers as stacked_layers
from pairframe.report.napari.reader import napari_get_reader as napari_get_reader
from pairframe.report.napari.reader import read_layers as read_layers
