"""Makes small sets for the trainer's tasks of descriptions of shell commands (nl2bash: a file of descriptions, a file of commands).

    python3 tests/peers/tasks_data.py DESCRIPTIONS COMMANDS OUT

OUT gets, each as {name}-train.jsonl and {name}-valid.jsonl: `tags`, words with B-ARG and I-ARG where a word is an argument of the
command; `pairs`, a description and a command that match or do not; `similar`, descriptions with their commands; `texts`, descriptions;
`answers`, a list of descriptions with their commands, and one of them or another to find the command of; `written`, all descriptions but
the validation rows of the others with their commands. `summaries` is not of them: what docstrings of the Python that runs this, of its standard
library and its packages, say after their first lines, and those lines (PEP 257 calls them summary lines).
"""
import ast
import json
import random
import re
import sys
import sysconfig
from pathlib import Path

TRAIN, VALID = 3_000, 500
LISTED, ANSWERED, LONGEST = 3, 2, 150
SUMMARIES = 12_000


def tags(words, command):
    """A word is an argument if it stands in the command and is no plain word, or a long one after the command's name."""
    parts = re.split(r"[\s'\"|;()]+", command)
    found, inside = [], False
    for word in words:
        core = word.strip("\"'`.,;:()")
        argument = bool(core) and (core in parts if not core.isalpha() else len(core) > 3 and core in parts[1:])
        found.append(("I-ARG" if inside else "B-ARG") if argument else "O")
        inside = argument
    return found


def answers(rows):
    """A question about every second row, in a list of it and of those behind it; for one in five it is not in the list.
    transformers needs room for a part of the list behind the question, so that long rows are left out."""
    rows = [row for row in rows if max(map(len, row)) <= LONGEST]
    for number in range(0, len(rows) - LISTED, ANSWERED):
        listed = rows[number:number + LISTED]
        random.shuffle(listed)
        context, begins = "", []
        for text, command in listed:
            context += f"{text.rstrip('.')}: "
            begins.append(len(context))
            context += f"{command}\n"
        chosen = random.randrange(LISTED)
        text, command = listed[chosen]
        if random.random() < 0.2:
            yield {"question": random.choice(rows)[0], "context": context, "answers": {"text": [], "answer_start": []}}
        else:
            yield {"question": text, "context": context, "answers": {"text": [command], "answer_start": [begins[chosen]]}}


def summaries():
    """Texts of 10 to 60 words after summary lines of 4 to 15, each text once."""
    files = {file for name in ("stdlib", "purelib", "platlib") for file in Path(sysconfig.get_path(name)).rglob("*.py")}
    found, draws = {}, random.Random(0)
    for file in draws.sample(sorted(files), len(files)):
        if len(found) >= SUMMARIES:
            break
        try:
            parts = ast.walk(ast.parse(file.read_text()))
            texts = [ast.get_docstring(part) for part in parts if isinstance(part, (ast.FunctionDef, ast.ClassDef, ast.Module))]
        except (SyntaxError, ValueError, RecursionError, OSError):
            continue
        for text in texts:
            summary, _, rest = (text or "").partition("\n\n")
            document, summary = " ".join(rest.split()), " ".join(summary.split())
            if 4 <= len(summary.split()) <= 15 and 10 <= len(document.split()) <= 60:
                found[document] = summary
    return draws.sample(sorted(found.items()), len(found))


def main():
    descriptions, commands = (Path(name).read_text().splitlines() for name in sys.argv[1:3])
    rows = [(text, command) for text, command in zip(descriptions, commands) if text.strip() and command.strip()]
    rows = list(dict.fromkeys(rows))
    random.seed(0)
    random.shuffle(rows)
    told = summaries()
    target = Path(sys.argv[3])
    target.mkdir(parents=True, exist_ok=True)
    for name, part in [("train", rows[:TRAIN]), ("valid", rows[TRAIN:TRAIN + VALID])]:
        made = {"tags": [], "pairs": [], "similar": [], "texts": [], "answers": list(answers(list(part)))}
        for text, command in part:
            words = text.split()
            made["tags"].append({"tokens": words, "ner_tags": tags(words, command)})
            match = random.random() < 0.5
            made["pairs"].append({"description": text, "command": command if match else random.choice(part)[1],
                                  "label": "match" if match else "other"})
            made["similar"].append({"description": text, "command": command})
            made["texts"].append({"text": text})
        whole = rows[:TRAIN] + rows[TRAIN + VALID:] if name == "train" else part
        made["written"] = [{"description": text, "command": command} for text, command in whole]
        made["summaries"] = [{"document": text, "summary": line} for text, line in (told[VALID:] if name == "train" else told[:VALID])]
        for kind, lines in made.items():
            (target / f"{kind}-{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
