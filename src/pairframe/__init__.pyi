from pairframe._version import __version__ as __version__
from pairframe.errors import PairframeError as PairframeError
from pairframe.frame import BoxYX as BoxYX
from pairframe.frame import GridTransform as GridTransform
from pairframe.frame import propose_bucket_shapes as propose_bucket_shapes
from pairframe.masks import Mask as Mask
from pairframe.masks import clean_mask as clean_mask
from pairframe.masks import read_mask as read_mask
from pairframe.masks import write_mask as write_mask

__all__: list[str]
