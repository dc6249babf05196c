"""Writes the Parquet and Arrow files that the tests of the trainer's data read, as Hugging Face's `datasets` writes them.

    data_files.py FOLDER        (src/core/arguments/data_file/fixtures)
"""

import pathlib
import shutil
import sys

import datasets

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
features = datasets.Features(
    {
        "text": datasets.Value("string"),
        "label": datasets.ClassLabel(names=["negative", "positive"]),
        "tokens": datasets.Sequence(datasets.Value("string")),
        "ner_tags": datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER", "I-PER"])),
        "stars": datasets.Value("float32"),
        "checked": datasets.Value("bool"),
    }
)
rows = {
    "text": ["a \"good\" film\nindeed", "söß", None],
    "label": [1, 0, -1],
    "tokens": [["Ada", "Lovelace", "wrote"], ["ok"], []],
    "ner_tags": [[1, 2, 0], [0], []],
    "stars": [4.5, 1.0, None],
    "checked": [True, False, None],
}
data = datasets.Dataset.from_dict(rows, features=features)
data.to_parquet(folder / "reviews.parquet")
data.save_to_disk(folder / "saved")
(part,) = (folder / "saved").glob("*.arrow")
shutil.copyfile(part, folder / "reviews.arrow")
shutil.rmtree(folder / "saved")
