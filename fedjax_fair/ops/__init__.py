"""The kernels of the methods: pure functions of arrays, to be used on their own as well."""

from fedjax_fair.ops.consistency import consistent, counted
from fedjax_fair.ops.gram import gram
from fedjax_fair.ops.losses import adjusted_logits, logit_adjusted_cross_entropy
from fedjax_fair.ops.sharpness import gsam_gradient, sam_gradient, sharpness, sharpness_weights
from fedjax_fair.ops.simplex import project_simplex
from fedjax_fair.ops.tilted import tilted_consensus, tilted_mean, two_level_tilted_loss

__all__ = [
    'adjusted_logits',
    'consistent',
    'counted',
    'gram',
    'gsam_gradient',
    'logit_adjusted_cross_entropy',
    'project_simplex',
    'sam_gradient',
    'sharpness',
    'sharpness_weights',
    'tilted_consensus',
    'tilted_mean',
    'two_level_tilted_loss',
]
