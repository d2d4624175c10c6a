"""The kernels of the methods: pure functions of arrays, to be used on their own as well."""

from fedjax_fair.ops.conflicts import leave_out, project_conflicts
from fedjax_fair.ops.consistency import consistent, counted
from fedjax_fair.ops.gram import gram
from fedjax_fair.ops.losses import adjusted_logits, logit_adjusted_cross_entropy
from fedjax_fair.ops.prototypes import class_sums, mean_prototypes, prototype_contrast, prototype_distance
from fedjax_fair.ops.sharpness import gsam_gradient, sam_gradient, sharpness, sharpness_weights
from fedjax_fair.ops.simplex import project_simplex
from fedjax_fair.ops.spectral import amplitude_normalize, mean_amplitude
from fedjax_fair.ops.tilted import tilted_consensus, tilted_mean, two_level_tilted_loss

__all__ = [
    'adjusted_logits',
    'amplitude_normalize',
    'class_sums',
    'consistent',
    'counted',
    'gram',
    'gsam_gradient',
    'leave_out',
    'logit_adjusted_cross_entropy',
    'mean_amplitude',
    'mean_prototypes',
    'project_conflicts',
    'project_simplex',
    'prototype_contrast',
    'prototype_distance',
    'sam_gradient',
    'sharpness',
    'sharpness_weights',
    'tilted_consensus',
    'tilted_mean',
    'two_level_tilted_loss',
]
