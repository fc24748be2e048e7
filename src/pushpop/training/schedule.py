"""What changes from batch to batch besides the weights: plain numbers, saved with a checkpoint."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import cos, exp, inf, pi
from typing import Any

from pushpop.tasks import LengthRange
from pushpop.training.config import TrainConfig

GAIN = 0.99
"""A run has converged when its best perplexity stays above this share of an earlier one."""

LOST = 2
"""A perplexity above this many times the threshold of "learnt" counts as lost."""

MEMORY_LEARNS = 0.7
"""The memory learns if this share of what is right with attention is right without it."""

FEW_SYMBOLS = 16
"""With at most this many symbols, thresholds are tied to the perplexity of chance."""


@dataclass
class Progress:
    """Where a run is. Every value goes through JSON and back without a change."""

    longest: int  # source length that the curriculum has reached
    rate: float  # the learning rate
    step: int = 0  # batches trained on
    settled: int = 0  # the last batch whose reports and tests are in the log
    log_size: int = 0  # bytes of the log up to there
    interval: list[float] = field(default_factory=lambda: [0.0, 0])  # nll, symbols since a report
    window: list[list[float]] = field(default_factory=list)  # the same of the last batches
    interval_longest: int = 0  # `longest` when the interval began
    perplexity: float | None = None  # as last reported
    perplexity_longest: int = 0  # of the easiest batch in it
    best_perplexity: float | None = None  # of the best checkpoint
    best_longest: int = 0
    best_step: int | None = None
    epoch: int = 0  # batches in an epoch of given pairs; 0: pairs are drawn
    best_valid: list[float] | None = None  # accuracy and perplexity in validation
    waited: int = 0  # epochs since then
    shorter_first: int = 0  # batches at the beginning that are of shorter pairs alone
    carried: dict[str, Any] | None = None  # what the longer pairs told after these
    valid_perplexity: float | None = None  # of the last validation
    steady: int = 0  # how far the noise on the gates has risen, in batches
    solved: int = 0  # tests in a row that found the task solved
    seconds: float = 0.0
    gained: list[float] | None = None  # longest source and perplexity of the last gain
    gained_step: int = 0  # when that was reported
    guarded_step: int | None = None  # when the snapshot was taken that is restored after divergence
    falls: int = 0  # how often that has happened
    choices: int | None = None  # symbols that a model chooses from; None: not known

    @classmethod
    def start(cls, config: TrainConfig, epoch: int = 0, choices: int | None = None) -> "Progress":
        longest, rate = config.curriculum_start or config.training_range[1], config.learning_rate
        return cls(longest, rate, interval_longest=longest, epoch=epoch, choices=choices)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: `Progress(**values)` undoes it."""
        return asdict(self)

    def lengths(self, config: TrainConfig) -> LengthRange:
        """The source lengths of the next batch. While the longest allowed is short, so is the
        shortest: half of it."""
        low, _ = config.training_range
        return min(low, max(1, self.longest // 2)), self.longest

    def next_rate(self, config: TrainConfig) -> float:
        risen = min(1.0, (self.step + 1) / config.warmup) if config.warmup else 1.0
        last = self.last_step(config)
        if config.cosine:
            return self.rate * risen * (1 + cos(pi * min(1.0, self.step / last))) / 2
        cooldown = min(config.cooldown, last)  # of a short run all of it, from the full rate on
        left = min(1.0, (last - self.step) / cooldown) if cooldown else 1.0
        return self.rate * risen * left

    def noise_rise(self, config: TrainConfig) -> int:
        """Steady batches in which the noise rises to its value: twice as many after every fall."""
        return config.noise_rise << self.falls

    def noise_share(self, config: TrainConfig) -> float:
        """How much of the noise the next batch has. It rises while the model keeps up with it."""
        return self.steady / max(1, self.noise_rise(config))

    def skipped_attention(self, config: TrainConfig) -> float:
        """The share of the batches that do without attention: none any more where the memory alone
        had learnt too little of the shorter pairs."""
        return config.skip_attention if self.memory_learns else 0.0

    @property
    def memory_learns(self) -> bool:
        """Whether the model without attention learns what it does with it, as far as is known."""
        if self.carried is None or "without_attention" not in self.carried:
            return True
        return bool(self.carried["without_attention"] >= MEMORY_LEARNS * self.carried["shorter"])

    def recent(self, config: TrainConfig) -> float | None:
        """The perplexity of the window, once it is full."""
        if len(self.window) < config.window:
            return None
        return perplexity(*map(sum, zip(*self.window, strict=True)))

    def has_arrived(self, config: TrainConfig) -> bool:
        """Whether sources of full length are learnt."""
        return self._below(config, self.learnt_below(config))

    def learnt_below(self, config: TrainConfig) -> float:
        """The perplexity below which something is learnt: half way from certainty to chance at
        most, for of two symbols a model that knows nothing has a perplexity of 2."""
        return min(config.curriculum_below, self._towards_chance(0.5))

    def lost_above(self, limit: float) -> float:
        """The perplexity above which something is lost: a limit, but less than chance."""
        return min(limit, self._towards_chance(0.75))

    def _towards_chance(self, share: float) -> float:
        few = self.choices is not None and self.choices <= FEW_SYMBOLS
        return float((self.choices or 1) ** share) if few else inf

    def is_steady(self, config: TrainConfig) -> bool:
        """Whether the task is learnt so well that noise may rise and the rate may fade.

        In validation if there is one, for dropout makes the perplexity of training larger.
        """
        # A model as sure as label smoothing wants it to be has 1 / wanted at least.
        wanted = 1 - config.label_smoothing + config.label_smoothing / (self.choices or 1)
        limit = config.decay_below * (1 / wanted)
        if self.epoch:
            return self.valid_perplexity is not None and self.valid_perplexity < limit
        return self._below(config, limit)

    def _below(self, config: TrainConfig, limit: float) -> bool:
        recent = self.recent(config)
        at_full_length = self.longest >= config.training_range[1]
        return at_full_length and recent is not None and recent < limit

    def has_fallen(self, config: TrainConfig) -> bool:
        """Whether training has diverged since the snapshot of steady weights."""
        recent = self.recent(config)
        guarded = config.guard > 0 and self.guarded_step is not None
        return guarded and recent is not None and recent > self.lost_above(config.guard)

    def after_batch(self, config: TrainConfig, nll: float, symbols: int) -> None:
        """Count a batch; raise the curriculum or lower the learning rate where it is time.

        A model that has lost at full length what it had learnt seldom finds it again there, and
        soon does on short sources: the curriculum begins anew.
        """
        self.step += 1
        self.interval = [self.interval[0] + nll, self.interval[1] + symbols]
        self.window = [*self.window, [nll, symbols]][-config.window :]
        recent, full = self.recent(config), config.training_range[1]
        if recent is None:
            return
        if self.longest < full:
            if recent < self.learnt_below(config):
                self.longest = min(full, self.longest + max(1, self.longest // 2))
                self.window = []
        elif self.is_steady(config):
            rise = self.noise_rise(config)
            if self.steady >= rise:
                self.rate *= config.decay
            self.steady = min(self.steady + 1, max(1, rise))
        elif self.has_fallen(config):
            pass  # the trainer restores the snapshot: no need to begin anew
        elif config.curriculum_start and recent > self.lost_above(LOST * config.curriculum_below):
            self.longest = self.interval_longest = config.curriculum_start
            self.steady, self.window = 0, []

    def after_fall(self, rate: float, steady: int) -> None:
        """Go on from the snapshot, which was taken at `rate`, with half the learning rate."""
        self.falls += 1
        self.rate, self.steady, self.window = min(self.rate, rate) / 2, steady, []
        self.valid_perplexity = None  # it was of the weights before

    def report(self) -> float:
        """The average training perplexity since the last report; starts a new average."""
        self.perplexity = perplexity(*self.interval)
        self.perplexity_longest = self.interval_longest
        self.interval, self.interval_longest = [0.0, 0], self.longest
        here, (longest, best) = self.perplexity_longest, self.gained or (0, 0.0)
        if here > longest or (here == longest and self.perplexity < GAIN * best):
            self.gained, self.gained_step = [here, self.perplexity], self.step
        return self.perplexity

    @property
    def without_gain(self) -> int:
        """Batches since the average training perplexity last fell by 1 % or more."""
        return self.step - self.gained_step

    def improves(self, now: float = 1.0) -> bool:
        """Whether the last report is better than that of the best checkpoint.

        `now` is the perplexity of the weights as they are: where it is larger, it counts. While the
        curriculum rises, perplexity does too: longer sources go before.
        """
        if self.best_valid is not None:  # by validation, and noted at once
            return False
        if self.perplexity is None or self.best_perplexity is None:
            return self.perplexity is not None
        here = self.perplexity_longest, -max(self.perplexity, now)
        return here > (self.best_longest, -self.best_perplexity)

    def mark_best(self, now: float = 1.0) -> None:
        """Note whether the checkpoint about to be written is the best so far."""
        if self.improves(now):
            assert self.perplexity is not None
            self.best_perplexity = max(self.perplexity, now)
            self.best_longest, self.best_step = self.perplexity_longest, self.step

    def validated(self, config: TrainConfig, accuracy: float, perplexity: float) -> bool:
        """Note a validation, and whether it is the best; lower the rate where it is time.

        Where as many are right, the smaller perplexity is the better; but once noise or a lower
        rate steadies the weights, the later ones are. Where nothing is right, and of language
        models, which have perplexity alone, it stays the smaller perplexity.
        """
        self.valid_perplexity = perplexity
        best = self.best_valid or [-1.0, inf]
        gains = (accuracy, -perplexity) > (best[0], -best[1])
        steadier = accuracy == best[0] > 0 and self.steady > 0 and steadies(config)
        if gains or steadier:
            least = perplexity if gains else best[1]
            self.best_valid, self.best_step = [accuracy, least], self.step
            self.best_perplexity = self.perplexity
        is_rising = 0 < self.steady < self.noise_rise(config) and self.is_steady(config)
        if gains or 0 < self.step <= self.shorter_first:
            self.waited = 0
        elif not is_rising:
            self.waited += 1
            if config.plateau and self.waited % config.plateau == 0:
                self.rate /= 2
        return gains or steadier

    @property
    def epochs(self) -> float:
        """How often the given pairs were seen."""
        return self.step / self.epoch if self.epoch else 0.0

    def last_step(self, config: TrainConfig) -> int:
        """The batch after which training is over at the latest, but for time."""
        if self.epoch and config.epochs:
            return min(config.steps, config.epochs * self.epoch)
        return config.steps


def steadies(config: TrainConfig) -> bool:
    """Whether something is changed once the task is learnt: noise on gates, a rate that decays."""
    return config.gate_noise > 0 or config.controller_noise > 0 or config.decay < 1


def stop_reason(config: TrainConfig, at: Mapping[str, Any]) -> str | None:
    """Why training is over where a report is, if it is."""
    reasons = {
        "solved": config.until_solved and at.get("stopped_by") == "solved",
        "steps": at.get("step", 0) >= config.steps,
        "epochs": config.epochs and at.get("epochs", 0) >= config.epochs,
        "converged": config.converged_after and at.get("without_gain", 0) >= config.converged_after,
        "faded": at.get("faded", 1.0) <= config.until_faded,
        "patience": config.patience and at.get("waited", 0) >= config.patience,
        "time": config.minutes
        and at.get("step", 0)
        and at.get("seconds", 0) >= round(60 * config.minutes, 3),  # rounded as in the report
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def perplexity(nll: float, symbols: float) -> float:
    """exp of the mean negative log likelihood of a symbol, held to what JSON can say."""
    return exp(min(nll / symbols, 700.0))
