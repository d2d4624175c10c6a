"""The kernels of the methods: pure functions of arrays, to be used on their own as well."""

from fedjax_fair.ops.collaboration import collaboration_matrices, collaboration_weights, feature_statistics
from fedjax_fair.ops.conflicts import harmonized_coefficients, hierarchical_coefficients, leave_out, project_conflicts
from fedjax_fair.ops.consistency import consistent, counted
from fedjax_fair.ops.entropy import cross_entropy
from fedjax_fair.ops.gram import gram
from fedjax_fair.ops.losses import (
    adjusted_logits,
    logit_adjusted_cross_entropy,
    margin_loss,
    margin_penalty,
    proximal_term,
)
from fedjax_fair.ops.principal import principal_axes, principal_coefficients, principal_directions
from fedjax_fair.ops.prototypes import class_means, class_sums, mean_prototypes, prototype_contrast, prototype_distance
from fedjax_fair.ops.sharpness import gsam_gradient, sam_gradient, sharpness, sharpness_weights
from fedjax_fair.ops.simplex import minimize_on_simplex, project_simplex
from fedjax_fair.ops.spectral import amplitude_normalize, mean_amplitude
from fedjax_fair.ops.tilted import tilted_consensus, tilted_mean, two_level_tilted_loss

__all__ = [
    'adjusted_logits',
    'amplitude_normalize',
    'class_means',
    'class_sums',
    'collaboration_matrices',
    'collaboration_weights',
    'consistent',
    'counted',
    'cross_entropy',
    'feature_statistics',
    'gram',
    'gsam_gradient',
    'harmonized_coefficients',
    'hierarchical_coefficients',
    'leave_out',
    'logit_adjusted_cross_entropy',
    'margin_loss',
    'margin_penalty',
    'mean_amplitude',
    'mean_prototypes',
    'minimize_on_simplex',
    'principal_axes',
    'principal_coefficients',
    'principal_directions',
    'project_conflicts',
    'project_simplex',
    'prototype_contrast',
    'prototype_distance',
    'proximal_term',
    'sam_gradient',
    'sharpness',
    'sharpness_weights',
    'tilted_consensus',
    'tilted_mean',
    'two_level_tilted_loss',
]
