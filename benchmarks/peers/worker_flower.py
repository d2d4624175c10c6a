"""Flower at work: its simulation engine on Ray with its own FedAvg; runs in the environment made for it.

The simulation runs in a thread of its own and waits before every round until it is asked for, so that only the round
is timed.
"""

from __future__ import annotations

import functools
import logging
import os
import queue
import threading
import time
from typing import Any

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.peers.job import Job
from benchmarks.peers.networks_torch import make_network
from benchmarks.peers.protocol import main, versions
from benchmarks.peers.training_torch import Trainer, load, parameters, suits_channels_last, test_loss

ACTORS = len(os.sched_getaffinity(0))
POLL = 0.01  # seconds between looks for replies; Flower's own 0.1 would show in a round


class Flower:
    """FedAvg with a Ray actor of one thread per core."""

    def __init__(self, job: Job, data: str):
        logging.getLogger('flwr').setLevel(logging.WARNING)
        torch.manual_seed(0)
        self.job, self.data, self.network = job, load(data, job), make_network(job)
        self.asked: queue.Queue[bool] = queue.Queue()
        self.done: queue.Queue[MetricRecord | None] = queue.Queue()
        self.simulation = threading.Thread(target=self._simulate, args=(data,))
        self.simulation.start()
        self.work = self._wait()

    def facts(self) -> dict[str, Any]:
        return {
            'how': f'{ACTORS} Ray actors of 1 thread',
            'parameters': parameters(self.network),
            'versions': versions('flwr', 'ray', 'torch', 'numpy'),
        }

    def round(self) -> None:
        self.asked.put(True)
        self.work = self._wait()

    def check(self) -> dict[str, Any]:
        return {'loss': test_loss(self.network, self.data), **self.work}

    def stop(self) -> None:
        """End the simulation."""
        self.asked.put(False)
        self.simulation.join()

    def _wait(self) -> MetricRecord:
        found = self.done.get()
        if found is None:
            raise RuntimeError('the simulation has ended')
        return found

    def _simulate(self, data: str) -> None:
        server, job = ServerApp(), self.job
        strategy = FedAvg(
            fraction_train=job.cohort / job.clients,
            fraction_evaluate=0.0,
            min_available_nodes=job.clients,
            train_metrics_aggr_fn=_sum,
        )

        @server.main()
        def serve(grid: Grid, context: Context) -> None:
            grid.pull_interval = POLL
            _wait_for_answer(grid)
            self.done.put(MetricRecord({'examples': 0, 'steps': 0}))
            while self.asked.get():
                result = strategy.start(grid, ArrayRecord(self.network.state_dict()), num_rounds=1)
                self.network.load_state_dict(result.arrays.to_torch_state_dict())
                self.done.put(result.train_metrics_clientapp[1])

        resources = {'init_args': {'num_cpus': ACTORS}, 'client_resources': {'num_cpus': 1, 'num_gpus': 0.0}}
        try:
            run_simulation(server, client_app(job, data), job.clients, backend_config=resources)
        finally:
            self.done.put(None)


def _wait_for_answer(grid: Grid) -> None:
    """Return when a client has answered, which means that Ray and its actors are up."""
    while not (nodes := list(grid.get_node_ids())):
        time.sleep(POLL)
    grid.send_and_receive([Message(RecordDict(), dst_node_id=nodes[0], message_type='query')], timeout=None)


def _sum(replies: list[RecordDict], weight: str) -> MetricRecord:
    metrics = [record for reply in replies for record in reply.metric_records.values()]
    return MetricRecord({name: sum(record[name] for record in metrics) for name in ('examples', 'steps')})


def client_app(job: Job, data: str) -> ClientApp:
    """What every client runs: the plain trainer, from the model it is sent."""
    app = ClientApp()

    @app.query()
    def answer(message: Message, context: Context) -> Message:
        return Message(RecordDict(), reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        trainer = _trainer(job, data)
        trainer.network.load_state_dict(message.content['arrays'].to_torch_state_dict())
        trainer.examples = trainer.steps = 0
        trainer.train(int(context.node_config['partition-id']))
        metrics = {'num-examples': job.samples, 'examples': trainer.examples, 'steps': trainer.steps}
        arrays = ArrayRecord(trainer.network.state_dict())
        return Message(RecordDict({'arrays': arrays, 'metrics': MetricRecord(metrics)}), reply_to=message)

    return app


@functools.cache  # an actor keeps data and network from client to client
def _trainer(job: Job, data: str) -> Trainer:
    layout = suits_channels_last(job)
    return Trainer(job, load(data, job, layout), channels_last=layout)


if __name__ == '__main__':
    from benchmarks.peers import worker_flower  # under its own name, by which the actors can import it

    main(worker_flower.Flower).stop()
