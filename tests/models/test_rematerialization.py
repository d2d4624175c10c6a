"""Activations that are computed again change no result and take less memory."""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_fair.core.tree import num_bytes
from fedjax_fair.models import make_model
from fedjax_fair.models.rematerialization import rematerialized


def test_values_gradients_and_statistics_are_the_same_with_fewer_temporaries():
    model = make_model('cnn', 3, 'batch', widths=(8, 8))
    x = jax.random.normal(jax.random.key(0), (32, 32, 32, 3))
    variables, mask = model.init(jax.random.key(1), x), jnp.ones(32, bool)

    def loss_of(apply):
        def loss(params):
            out = apply({**variables, 'params': params}, x, mask, True, jax.random.key(2))
            return jnp.sum(jax.nn.log_softmax(out.logits)[:, 0]), out.batch_stats

        return jax.jit(jax.grad(loss, has_aux=True))

    lean = rematerialized(model)
    given, same = (loss_of(one.apply)(variables['params']) for one in (model, lean))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), given, same)
    saved = {one: _bytes_kept(_forward(one, variables, x, mask), variables['params']) for one in (model, lean)}
    assert saved[lean] < 0.7 * saved[model]


def _forward(model, variables, x, mask):
    def forward(params):
        return model.apply({**variables, 'params': params}, x, mask, True, jax.random.key(2)).logits

    return forward


def _bytes_kept(forward, params):
    """Of what the forward pass keeps for the backward pass."""
    return num_bytes(jax.eval_shape(lambda params: jax.vjp(forward, params)[1], params))
