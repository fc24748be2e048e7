"""Train a model on your own pairs and predict: inflected forms of English verbs.

The pairs are (source, target, features). Features are optional: for spelling and sound, for
instance, (source, target) is enough. Runs in less than half a minute.
"""

import pushpop

VERBS = """
add aim answer ask bake bang beg believe blame boil bore brush change chat cheer chew chop clap
clean close collect cook cough cry dare decide depend dress drip drop dry end enjoy escape explain
face fade fail fill fix fold force fry glance glow grab greet grin guess hammer hand handle hate
help hop hope hurry imagine invite iron jump kiss label land laugh learn lick like list load look
love march mark match measure melt miss mix nail name need nod note obey order paint park pass
paste pat pause pick place plant point pray press pull push race rain raise reach reply rescue
rest rob rock row rule rush share shop shout sign skate skip slam sniff snow spy stamp stare start
stay step talk taste thank tie touch train trap treat trip trot trust try tug turn type use visit
wait want warn wash waste watch wave whip whisper wink wipe wish work worry wrap zip
""".split()  # noqa: SIM905


def inflect(verb: str, ending: str) -> str:
    """Return the regular past (`ed`), participle (`ing`) or third person (`s`) of a verb."""
    vowel = "aeiou"
    if ending == "s":
        if verb[-1] == "y" and verb[-2] not in vowel:
            return f"{verb[:-1]}ies"
        return f"{verb}es" if verb.endswith(("s", "x", "z", "ch", "sh")) else f"{verb}s"
    if verb[-1] == "y" and verb[-2] not in vowel and ending == "ed":
        return f"{verb[:-1]}ied"
    if verb.endswith("ie") and ending == "ing":
        return f"{verb[:-2]}ying"
    if verb[-1] == "e":
        return f"{verb[:-1]}{ending}"
    one_vowel = sum(letter in vowel for letter in verb) == 1
    if one_vowel and verb[-2] in vowel and verb[-1] not in "wxy" + vowel:
        return f"{verb}{verb[-1]}{ending}"
    return f"{verb}{ending}"


def main(epochs: int = 25) -> None:
    """Train on all verbs except every tenth, and test on those."""
    features = {"V;PST": "ed", "V;PTCP;PRS": "ing", "V;PRS;3;SG": "s"}
    table = {
        verb: [(verb, inflect(verb, ending), tags) for tags, ending in features.items()]
        for verb in VERBS
    }
    test = [pair for verb in VERBS[::10] for pair in table[verb]]
    pairs = [pair for verb in VERBS if verb not in VERBS[::10] for pair in table[verb]]

    model = pushpop.Transducer.fit(pairs, memory="deque", hidden=64, epochs=epochs)

    print(f"{len(pairs)} pairs to train on, {len(test)} of verbs that the model has not seen")
    predicted = model.transduce([f"{verb}\t{tags}" for verb, _, tags in test])
    for (verb, right, tags), form in zip(test[::5], predicted[::5], strict=True):
        print(f"{verb} {tags} -> {form}" + ("" if form == right else f" (right: {right})"))
    for name, figure in model.score(test).items():
        print(f"{name:18} {figure:.3f}" if name != "pairs" else f"{name:18} {figure}")
    model.save_pretrained("inflector")  # pushpop transduce inflector < words.txt


if __name__ == "__main__":
    main()
