"""`pushpop train`: the options of a run are the fields of `TrainConfig`, and nothing else."""

import sys

from pushpop.errors import InputError


def train(
    task: str | None = None,
    run: str | None = None,
    resume: str | None = None,
    config: str | None = None,
    print_config: bool = False,
    **options: str | None,
) -> None:
    """Train a transducer; a run is a directory, and goes on where it was stopped.

    Examples:
        pushpop train reverse --memory stack --recipe pushpop --until-solved
        pushpop train pairs.tsv --valid dev.tsv      your own pairs: source, tab, target
        pushpop train labels.csv --form tagger       a label for every source symbol
        pushpop train copy --memory queue            the paper's protocol
        pushpop train --resume runs/copy-queue-seed0 --steps 20000
        pushpop train copy --recipe pushpop --print-config > mine.yaml
    """
    from pushpop.training.config import CHANGEABLE, TrainConfig, read_config_file

    given = {name: text for name, text in options.items() if text is not None}
    if task is not None:
        given["task"] = task
    if resume is not None:
        others = [f"--{name.replace('_', '-')}" for name in given if name not in CHANGEABLE]
        others += [name for name, value in (("--run", run), ("--config", config)) if value]
        if others:
            allowed = ", ".join(f"--{name.replace('_', '-')}" for name in CHANGEABLE)
            raise InputError(
                f"--resume goes on with a run's own options: leave out "
                f"{others[0].replace('--task', 'TASK')} (only {allowed} may change)"
            )
        from pushpop.training import RunDirectory

        settings, directory = RunDirectory(resume).config().override(given), resume
    else:
        in_file = read_config_file(config) if config else {}
        if in_file.get("recipe", given.get("recipe")) != given.get("recipe", in_file.get("recipe")):
            raise InputError(
                f"--recipe is {given['recipe']!r}, and {config} has the values of recipe "
                f"{in_file['recipe']!r}: leave one of them out"
            )
        wanted = {**in_file, **given}
        if "task" not in wanted and not print_config:
            raise InputError("no task given: expected pushpop train TASK, as in pushpop train copy")
        settings = TrainConfig.from_dict(wanted)
        from pushpop.training.run import default_directory

        directory = run or default_directory(settings)
    if print_config:
        import yaml

        print(yaml.safe_dump(settings.to_dict(), sort_keys=False), end="")
        return
    from pushpop.training import Diverged
    from pushpop.training import train as run_training
    from pushpop.training.parallel import is_leader
    from pushpop.training.view import LiveView, PlainView

    live = sys.stdout.isatty() and is_leader()
    try:
        run_training(settings, directory, LiveView() if live else PlainView())
    except Diverged as error:
        if is_leader():
            print("pushpop:", error, file=sys.stderr)
        raise SystemExit(1) from None
    if is_leader():
        print(f"run: {directory}")
