"""One replica of the engine: processor sharing in virtual time.

All requests of a decode batch advance at one pace, so one number, the tokens that each has got since the
replica started, stands for all of them: a request that needs ``left`` more ends when that number has grown
by ``left``. An arrival or a departure then costs O(log n), and nothing happens in between, however many
tokens are sampled. Between two events the batch, n, does not change. With a step of c seconds now, and b
seconds more for each cached token, x tokens for each request take c x + b n x² / 2 seconds: the cache grows
by n a step.

Rejected: an event a decode step (10^5 times as many), and a fixed time step (wrong by up to a step, for
every trajectory). What is simplified: a prefill stops all decoding of its replica while it lasts, where an
engine with chunked prefill would slow it down for longer; and members of a group share no prompt cache.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Sequence

from agentic_gym.trainers.simulation.cluster import Cluster, admissible_tokens
from agentic_gym.trainers.simulation.jobs import Job

_ALMOST = 1e-6
"""Tokens within which a request counts as done: far above rounding, far below one."""


class Replica:
    """A replica.

    Time is given to each call and must not decrease; :meth:`advance` comes before any other change.

    Args:
        number: of it.
        cluster: costs.
        steps: seconds of a decode step without reading the cache, by batch.
        version: of the weights that it serves.

    Attributes:
        running: requests that decode or are being prefilled, in the order of their admission.
        waiting: requests that are held back or do not fit, the next one first.
        backlog: trajectories that were placed here and have no room yet.
        jobs: trajectories that are carried, running or not, in the order in which they came.
        held: admits nothing: new weights are about to be loaded.
        loading: new weights are being loaded.
        alive: or dead.
        training: its machine helps the trainer.
        busy_s, publish_s, lent_s, dead_s: seconds with something running, of loading, of helping the trainer
            with nothing running, and of being dead. The rest it was idle.
        kv_token_s: integral of the tokens cached by running requests.
        sampled: tokens of all requests together, whatever becomes of them.
        preemptions: of running requests by a full cache.
        wake_at: when it is looked at next.
        bars: (time, "busy", "idle", "publish", "train" or "dead") at every change, where someone wants them.
    """

    def __init__(
        self, number: int, cluster: Cluster, steps: Sequence[float], version: int = 0
    ) -> None:
        self.number = number
        self.version = version
        self.running: dict[Job, None] = {}
        self.waiting: OrderedDict[Job, None] = OrderedDict()
        self.backlog: OrderedDict[Job, None] = OrderedDict()
        self.jobs: dict[Job, None] = {}
        self.held = self.loading = self.training = False
        self.alive = True
        self.busy_s = self.publish_s = self.lent_s = self.dead_s = self.kv_token_s = 0.0
        self.sampled = 0.0
        self.preemptions = 0
        self.bars: list[tuple[float, str]] | None = None
        self.wake_at = math.inf
        self._cluster = cluster
        self._steps = steps
        self._read = cluster.kv_seconds_per_token
        self._capacity = cluster.kv_capacity
        self._admissible = admissible_tokens(cluster)
        self._now = 0.0
        self._stalled_until = 0.0  # prefill and loading
        self._tokens = 0.0  # that each running request has got since the start
        self._kv = 0.0  # of running requests
        self._kept: OrderedDict[Job, float] = OrderedDict()  # prefixes of those in a tool call
        self._kept_kv = 0.0
        self._ends: list[tuple[float, int, Job]] = []
        self._ticket = number  # grows by the number of replicas: no other replica gives the same

    @property
    def kv_tokens(self) -> float:
        """Cached by running requests."""
        return self._kv

    # ---- time ------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Lets time pass."""
        before = self._now
        if now <= before:
            return
        self._now = now
        batch = len(self.running)
        if self.loading:
            self.publish_s += now - before
        elif batch:
            self.busy_s += now - before
        elif not self.alive:
            self.dead_s += now - before
        elif self.training:
            self.lent_s += now - before
        if not batch:
            return
        cached = self._kv
        seconds = now - (before if before > self._stalled_until else self._stalled_until)
        if seconds > 0:
            step = self._steps[batch] + self._read * cached
            root = math.sqrt(step * step + 2 * self._read * batch * seconds)
            tokens = 2 * seconds / (step + root)  # solves the quadratic without cancellation
            self._tokens += tokens
            self.sampled += batch * tokens
            self._kv = cached + batch * tokens
        self.kv_token_s += (now - before) * (cached + self._kv) / 2

    def due(self) -> float:
        """When the next request ends, or the cache is full; infinity: never, as things are."""
        batch = len(self.running)
        if not batch or self.loading:
            return math.inf
        ends = self._ends
        while ends[0][2].ticket != ends[0][1]:
            heapq.heappop(ends)  # it has left since
        tokens = ends[0][0] - self._tokens
        room = (self._capacity - self._kv - self._kept_kv) / batch
        if room < tokens:
            tokens = room
        begin = self._now if self._now > self._stalled_until else self._stalled_until
        if tokens <= 0:
            return begin
        step = self._steps[batch] + self._read * self._kv
        return begin + tokens * (step + self._read * batch * tokens / 2)

    def finish_due(self) -> list[Job]:
        """Takes out the requests that have got all their tokens."""
        done: list[Job] = []
        ends, limit = self._ends, self._tokens + self._slack()
        while ends and ends[0][0] <= limit:
            _, ticket, job = heapq.heappop(ends)
            if job.ticket == ticket:
                self._leave(job)
                job.left = 0.0
                done.append(job)
        return done

    def _slack(self) -> float:
        """Tokens that count as none: a little, and what is decoded while the clock cannot move on."""
        step = self._steps[len(self.running)] + self._read * self._kv
        return _ALMOST + 4 * math.ulp(self._now) / step

    # ---- requests --------------------------------------------------------------------------------

    def admit(self) -> list[Job]:
        """Admits what waits and fits; returns it."""
        admitted: list[Job] = []
        if self.held:
            return admitted
        while self.waiting:
            job = next(iter(self.waiting))
            if not self._fits(job):
                break
            self.waiting.popitem(last=False)
            self._enter(job)
            admitted.append(job)
        return admitted

    def make_room(self) -> None:
        """Where the cache is full: forgets kept prefixes, then preempts what was admitted last."""
        full = self._capacity - self._slack() * (len(self.running) + 1)
        while self._kv + self._kept_kv >= full:
            if self._kept:
                self._kept_kv -= self._kept.popitem(last=False)[1]
                continue
            if len(self.running) < 2:
                return
            job = next(reversed(self.running))
            self._leave(job)
            self.waiting[job] = None
            self.waiting.move_to_end(job, last=False)
            self.preemptions += 1

    def keep(self, job: Job) -> None:
        """Keeps the prefix of a trajectory that has just ended a turn, as long as there is room."""
        self._kept[job] = job.context
        self._kept_kv += job.context

    def remove(self, job: Job) -> None:
        """Takes a request out, wherever it is here; its prefix is forgotten here, not in the job."""
        if job in self.running:
            self._leave(job)
        self.waiting.pop(job, None)
        self.backlog.pop(job, None)
        self._forget(job)

    def stall(self, seconds: float) -> None:
        """Nothing is decoded for so long."""
        self._stalled_until = max(self._now, self._stalled_until) + seconds

    def reload(self, version: int, *, keep_kv: bool) -> None:
        """New weights are in place: what runs is prefilled again, unless its cache is kept as it is."""
        self.version = version
        if not keep_kv:
            self._kept.clear()
            self._kept_kv = 0.0
            self.stall(self._kv / self._cluster.prefill_tokens_per_s)

    def mark(self) -> None:
        """Notes what it does now, for a picture."""
        if self.bars is None:
            return
        if not self.alive:
            state = "dead"
        elif self.loading:
            state = "publish"
        elif self.running:
            state = "busy"
        else:
            state = "train" if self.training else "idle"
        if not self.bars or self.bars[-1][1] != state:
            self.bars.append((self._now, state))

    # ---- inside ----------------------------------------------------------------------------------

    def _fits(self, job: Job) -> bool:
        """Whether there is room; kept prefixes of others make some."""
        room = self._admissible - self._kv - job.context
        if room < 0:
            return not self.running
        own = self._kept.get(job, 0.0)
        if own:
            self._kept.move_to_end(job)
        while self._kept_kv - own > room and len(self._kept) > bool(own):
            self._kept_kv -= self._kept.popitem(last=False)[1]
        return True

    def _enter(self, job: Job) -> None:
        cluster = self._cluster
        missing = job.context - self._forget(job)
        if job.moving and cluster.migrate_tokens_per_s:
            self.stall(missing / cluster.migrate_tokens_per_s)
        else:
            self.stall(missing / cluster.prefill_tokens_per_s)
        job.moving = False
        self._ticket += cluster.replicas
        job.ticket = self._ticket
        job.end = self._tokens + job.left
        heapq.heappush(self._ends, (job.end, job.ticket, job))
        self.running[job] = None
        self._kv += job.context

    def _leave(self, job: Job) -> None:
        got = job.left - (job.end - self._tokens)
        job.left -= got
        job.context += got
        job.ticket = 0
        del self.running[job]
        self._kv -= job.context
        if not self.running:
            self._kv = 0.0  # rounding does not add up
            self._ends.clear()

    def _forget(self, job: Job) -> float:
        kept = self._kept.pop(job, 0.0)
        self._kept_kv -= kept
        if not self._kept:
            self._kept_kv = 0.0
        return kept
