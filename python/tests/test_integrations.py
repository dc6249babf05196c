"""Callbacks of training libraries, with what they use of the libraries."""

import unittest

from .harness import Case

#: What the callback uses of transformers, in a file of that name.
TRANSFORMERS = """\
class TrainerCallback:
    pass

class TrainingArguments:
    train_batch_size = 16
    eval_batch_size = 8

    def to_dict(self):
        return {
            "learning_rate": 0.1, "eval_steps": None, "report_to": ["none"], "optim": "adamw",
            "accelerator_config": {"even_batches": True, "kwargs": None}, "hub_token": "<HUB_TOKEN>",
        }

    def to_sanitized_dict(self):
        return {name: str(value) for name, value in self.to_dict().items()}
"""


class Integrations(Case):
    def test_arguments_of_a_trainer_are_recorded_as_a_configuration_is(self) -> None:
        (self.path / "transformers.py").write_text(TRANSFORMERS)
        self.run_program(
            """
            import argparse, sys
            sys.path.insert(0, "")
            from types import SimpleNamespace
            from transformers import TrainingArguments
            from hpsearch.integrations import HpsearchCallback
            callback = HpsearchCallback(config=argparse.Namespace(optim="sgd", sizes=[1, 2]))
            state = SimpleNamespace(is_world_process_zero=True)
            callback.on_train_begin(TrainingArguments(), state, None)
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        (spool,) = self.spools()
        self.assertEqual(
            spool[0]["params"],
            {
                "learning_rate": 0.1,
                "eval_steps": None,
                "report_to": ["none"],
                "optim": "sgd",
                "accelerator_config.even_batches": True,
                "accelerator_config.kwargs": None,
                "hub_token": "***",
                "train_batch_size": 16,
                "eval_batch_size": 8,
                "sizes": [1, 2],
            },
        )


if __name__ == "__main__":
    unittest.main()
