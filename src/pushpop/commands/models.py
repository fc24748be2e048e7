"""`pushpop models`."""

import json


def models(as_json: bool = False) -> None:
    """List the trained models that come with pushpop: what they do, how right, how to use one.

    Args:
        as_json: print all that is known of each as JSON

    Examples:
        pushpop models
        pushpop models --as-json
    """
    from pushpop.models.saving import describe_shipped

    described = describe_shipped()
    if as_json:
        print(json.dumps(described, ensure_ascii=False, indent=1))
        return
    rows = [
        ["name", "task", "memory", "controller", "parameters", "kB", "recipe", "train", "test"],
        *(
            [
                one["name"],
                one["task"],
                one["memory"],
                f"{one['controller']} {one['hidden']}",
                f"{one['parameters']:,}",
                str(one["kilobytes"]),
                one["recipe"],
                *(f"{one[part]['coarse']:.3f}" for part in ("train", "test")),
            ]
            for one in described
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        )
    if not described:
        return
    first = next((one for one in described if one["name"] == "reverse-stack"), described[0])
    name = first["name"]
    lengths = {part: "-".join(map(str, first[part]["lengths"])) for part in ("train", "test")}
    print(
        "\ntrain, test: the share of targets without a mistake, of sources of "
        f"{lengths['train']} and of {lengths['test']} symbols.\n"
        f"How one was made: {first['made_by']}\n\n"
        f"pushpop transduce {name}                      a prompt\n"
        f"pushpop trace {name} -o trace.html            what its memory does, step by step\n"
        f"pushpop evaluate {name} --lengths 64,256      how right it is\n"
        f'pushpop.Transducer.from_pretrained("{name}")  in Python'
    )
