"""The kernels of the methods: pure functions of arrays, to be used on their own as well."""

from fedjax_fair.ops.collaboration import (
    class_means,
    collaboration_matrices,
    collaboration_weights,
    feature_statistics,
)
from fedjax_fair.ops.conflicts import harmonized_coefficients, hierarchical_coefficients
from fedjax_fair.ops.gram import gram
from fedjax_fair.ops.losses import (
    adjusted_logits,
    logit_adjusted_cross_entropy,
    margin_loss,
    margin_penalty,
    proximal_term,
)
from fedjax_fair.ops.principal import principal_axes, principal_coefficients, principal_directions
from fedjax_fair.ops.sharpness import gsam_gradient, sam_gradient, sharpness, sharpness_weights
from fedjax_fair.ops.simplex import minimize_on_simplex, project_simplex
from fedjax_fair.ops.tilted import tilted_consensus, tilted_mean, two_level_tilted_loss

__all__ = [
    'adjusted_logits',
    'class_means',
    'collaboration_matrices',
    'collaboration_weights',
    'feature_statistics',
    'gram',
    'gsam_gradient',
    'harmonized_coefficients',
    'hierarchical_coefficients',
    'logit_adjusted_cross_entropy',
    'margin_loss',
    'margin_penalty',
    'minimize_on_simplex',
    'principal_axes',
    'principal_coefficients',
    'principal_directions',
    'project_simplex',
    'proximal_term',
    'sam_gradient',
    'sharpness',
    'sharpness_weights',
    'tilted_consensus',
    'tilted_mean',
    'two_level_tilted_loss',
]
