"""Makes src/trainer/tests/golden/texts.json: texts that were written and what they should have been, with sacrebleu's BLEU and
chrF and rouge-score's ROUGE.

    python3 -m venv .venv && .venv/bin/pip install sacrebleu rouge-score
    .venv/bin/python tests/peers/texts_golden.py src/trainer/tests/golden/texts.json
"""
import json
import random
import sys

import sacrebleu
from rouge_score import rouge_scorer

ROUGE = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
FIXED = [
    ("the cat sat on the mat", "the cat sat on the mat"),
    ("find . -name '*.c' -print", "find . -name \"*.c\" | xargs grep -l main"),
    ("It cost $3.50, didn't it?", "It cost $3,50 -- did it not?"),
    ("&quot;Yes&quot; &amp; no", "\"Yes\" & no!"),
    ("", "nothing was written"),
    ("nothing was asked for", "x"),
    ("Grüße aus München, 1990-91.", "Viele Grüße aus München (1990-91)."),
    ("first line here\nand a second line\n", "a second line comes\nfirst here\n\nand last"),
    ("a a a a a", "a a"),
    ("1.5 2,000 3-4 end.", "1.5 2,000 3 -4 end ."),
    ("日本語 の テキスト", "日本語 テキスト"),
]


def main():
    rng = random.Random(3)
    words = "the a cat dog sat on mat and ran to . , - 3 4.5 (x) &amp; it's".split()
    some = lambda: " ".join(rng.choice(words) for _ in range(rng.randrange(1, 14)))
    groups = {"all": FIXED + [(some(), some()) for _ in range(60)], "short": [("yes", "yes"), ("no way", "no")], "foreign": [("x y z", "a b c")],
              "similar": [(text, text.replace("cat", "dog", 1)) for text in (some() + " the cat sat down" for _ in range(20))]}
    result = {}
    for name, pairs in groups.items():
        written, truth = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        scorer = rouge_scorer.RougeScorer(ROUGE, use_stemmer=False)
        scores = [scorer.score(right, own) for own, right in pairs]
        result[name] = {
            "pairs": pairs,
            "bleu": sacrebleu.corpus_bleu(written, [truth]).score,
            "chrf": sacrebleu.corpus_chrf(written, [truth]).score,
            **{kind: sum(score[kind].fmeasure for score in scores) / len(scores) for kind in ROUGE},
        }
    with open(sys.argv[1], "w") as file:
        json.dump(result, file, ensure_ascii=False)
        file.write("\n")


if __name__ == "__main__":
    main()
