"""The client's half of a round: the order in which its hooks run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_fair.core import hooks, tree
from fedjax_fair.core.local import Trained, train
from fedjax_fair.core.method import Context, pair
from fedjax_fair.core.training_set import AFTER, BEFORE
from fedjax_fair.core.types import Array, PyTree, Variables


class Findings(NamedTuple):
    """What clients measure and report: shared measurements by name, and the reports of each method by its name."""

    measured: Mapping[str, Array] = {}
    reports: Mapping[str, hooks.Reported] = {}

    def joined(self, later: Findings) -> Findings:
        """These and later ones of the same clients."""
        names = {**self.reports, **later.reports}
        reports = {name: {**self.reports.get(name, {}), **later.reports.get(name, {})} for name in names}
        return Findings({**self.measured, **later.measured}, reports)


class Sent(NamedTuple):
    """What one client's round gives: the update it uploads, its new rows, its findings, and how training went."""

    update: Variables
    rows: dict[str, PyTree]
    findings: Findings
    opt: PyTree
    loss_sum: Array
    examples: Array


def download(ctx: Context) -> Context:
    """The context with the model as this client receives it."""
    variables = ctx.variables
    for m in ctx.spec.methods:
        if m.download is not None:
            variables = m.download(dataclasses.replace(ctx.of(m), variables=variables), variables)
    return dataclasses.replace(ctx, variables=variables, memo={})


def deploy(ctx: Context) -> Variables:
    """The model this client would use: what it downloads, unless a method deploys something else."""
    ctx = download(ctx)
    variables = ctx.variables
    for m in ctx.spec.methods:
        if m.deploy is not None:
            variables = m.deploy(ctx.of(m), variables)
    return variables


def probe(ctx: Context) -> Findings:
    """All measurements of the model just downloaded."""
    ctx = download(ctx)
    measured = {name: BEFORE[name](ctx) for name in ctx.spec.measures(BEFORE)}
    return Findings(measured, {m.name: dict(m.probe(ctx.of(m))) for m in ctx.spec.methods if m.probe is not None})


def fit(ctx: Context, opt: PyTree) -> Trained:
    """Ordinary local training from ``ctx.variables``, phase by phase."""
    zero = jnp.zeros(())
    state = Trained(ctx.variables, opt, ctx.spec.start_scratch(ctx), zero, zero)
    for number, phase in enumerate(ctx.spec.phases):
        here = dataclasses.replace(ctx, key=jax.random.fold_in(ctx.key, number))
        if number:  # every phase has an optimiser of its own
            state = state._replace(opt=None)
        final = number == len(ctx.spec.phases) - 1
        state = train(here, ctx.spec.local, phase, state, final=final)
    return state


def train_and_send(ctx: Context, opt: PyTree) -> Sent:
    """One client's whole round: download, train, report, upload."""
    ctx = download(ctx)
    trained = fit(ctx, opt)
    rows, findings = reported(ctx, trained.scratch, trained.variables)
    after = trained.variables
    for m in ctx.spec.methods:
        if m.upload is not None:
            after = m.upload(ctx.of(m), trained.scratch[m.name], ctx.variables, after)
    update = jax.tree.map(jnp.subtract, after, ctx.variables)
    return Sent(update, rows, findings, trained.opt, trained.loss_sum, trained.examples)


def reported(ctx: Context, scratch: Mapping[str, PyTree], trained: Variables) -> tuple[dict[str, PyTree], Findings]:
    """The client's new rows, and what it measures and reports after training."""
    measured = {name: AFTER[name](ctx, trained) for name in ctx.spec.measures(AFTER)}
    rows: dict[str, PyTree] = {}
    reports: dict[str, hooks.Reported] = {}
    for m in ctx.spec.methods:
        if m.report is not None:
            own = m.report(ctx.of(m), scratch[m.name], ctx.variables, trained)
            rows[m.name], report = pair(m, 'report', own)
            reports[m.name] = dict(report)
    return rows, Findings(measured, reports)


def finite(sent: Sent) -> Array:
    """False for a client whose training went astray."""
    return tree.all_finite((sent.update, sent.rows, sent.findings))
