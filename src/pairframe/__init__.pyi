from pairframe._version import __version__ as __version__
from pairframe.alignment import Pose as Pose
from pairframe.alignment import align as align
from pairframe.alignment import canonical_pose as canonical_pose
from pairframe.alignment import stage_drift as stage_drift
from pairframe.cohort import align_cohort as align_cohort
from pairframe.engines import Status as Status
from pairframe.engines import solve as solve
from pairframe.engines.backends import backends as backends
from pairframe.errors import PairframeError as PairframeError
from pairframe.exact import W2Bounds as W2Bounds
from pairframe.exact import w2 as w2
from pairframe.frame import BoxYX as BoxYX
from pairframe.frame import GridTransform as GridTransform
from pairframe.frame import propose_bucket_shapes as propose_bucket_shapes
from pairframe.maps import PlanOperator as PlanOperator
from pairframe.masks import Mask as Mask
from pairframe.masks import clean_mask as clean_mask
from pairframe.masks import read_mask as read_mask
from pairframe.masks import write_mask as write_mask
from pairframe.pipeline import compare as compare
from pairframe.pipeline import compare_many as compare_many
from pairframe.pipeline import divergence as divergence
from pairframe.problem import TransportConfig as TransportConfig
from pairframe.results import TransportResult as TransportResult
from pairframe.results import load as load

__all__: list[str]
