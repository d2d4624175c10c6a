"""How often a recipe runs the network, counted in one trace."""

import jax
import jax.numpy as jnp
import pytest
from lab import IMAGES, LOCAL, SIZES

from fedjax_fair.core import Method, build
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import classification, segmentation
from fedjax_fair.testing import tiny_mlp


def passes(methods, local=LOCAL):
    chosen = build(
        tiny_mlp(batch_norm=True),
        classification(3),
        methods,
        sizes=SIZES,
        example=IMAGES.x[0],
        local=local,
        rounds=5,
    )
    return tuple(chosen.passes(IMAGES.y[0]))


@pytest.mark.parametrize(
    ('recipe', 'expected'),
    [
        ('fedavg', (1, 0, 0, 0)),
        ('scaffold+server_adam', (1, 0, 0, 0)),
        ('salt', (2, 0, 0, 0)),  # SAM takes its gradient at a second point
        ('ditto', (2, 0, 0, 0)),  # a second model
        ('local_only', (1, 0, 0, 0)),  # no model but the client's own
        ('ditto+salt', (4, 0, 0, 0)),  # both models at both points
        ('moon', (1, 2, 0, 0)),  # features of two frozen models
        ('qfedavg+afl', (1, 0, 0, 1)),  # one shared measurement, however many read it
        ('fedism', (2, 0, 1, 1)),  # sharpness of the received model: a gradient, and a loss at the perturbed point
        ('fedpac', (1, 0, 0, 2)),  # two phases of local training
    ],
)
def test_gradients_and_forward_passes_of_recipes(recipe, expected):
    assert passes(make_methods(recipe)) == expected


def wrapping(gradient):
    return [Method('own', grad=lambda inner: lambda ctx, variables, batch: gradient(inner, ctx, variables, batch))]


def test_a_loop_multiplies_what_it_holds():
    def thrice(inner, ctx, variables, batch):
        def body(total, _):
            return jax.tree.map(jnp.add, total, inner(ctx, variables, batch)[1]), None

        value, grads = inner(ctx, variables, batch)
        return value, jax.lax.scan(body, grads, None, length=3)[0]

    assert passes(wrapping(thrice)) == (4, 0, 0, 0)


def test_of_two_branches_the_dearer_counts():
    def sometimes(inner, ctx, variables, batch):
        value, grads = inner(ctx, variables, batch)
        again = jax.lax.cond(ctx.round > 5, lambda: inner(ctx, variables, batch)[1], lambda: grads)
        return value, again

    assert passes(wrapping(sometimes)) == (2, 0, 0, 0)


def test_a_gradient_that_a_method_takes_on_its_own_counts():
    def with_penalty(inner, ctx, variables, batch):
        def features(params):
            return jnp.sum(ctx.apply({**variables, 'params': params}, batch.x, batch.mask, True).features)

        value, grads = inner(ctx, variables, batch)
        return value, jax.tree.map(jnp.add, grads, jax.grad(features)(variables['params']))

    assert passes(wrapping(with_penalty)) == (2, 0, 0, 0)


def test_half_a_batch_is_half_a_pass():
    def on_half(inner, ctx, variables, batch):
        half = jax.tree.map(lambda leaf: leaf[: leaf.shape[0] // 2], batch)
        inner(ctx, variables, half)
        return inner(ctx, variables, batch)

    assert passes(wrapping(on_half)) == (1.5, 0, 0, 0)


def test_labels_may_be_images_and_optimisers_may_be_kept():
    def apply(variables, x, mask, train, key):
        out = tiny.apply(variables, x, mask, train, key)
        pixels = jnp.broadcast_to(out.logits[:, None, None], (x.shape[0], *x.shape[1:3], out.logits.shape[-1]))
        return out._replace(logits=pixels)

    tiny, local = tiny_mlp(), LOCAL._replace(keep_optimizer=True, momentum=0.9)
    chosen = build(
        tiny._replace(apply=apply),
        segmentation(3),
        make_methods('fedavg'),
        sizes=SIZES,
        example=IMAGES.x[0],
        local=local,
        rounds=5,
    )
    assert tuple(chosen.passes(jnp.zeros((2, 2), jnp.int32))) == (1, 0, 0, 0)
