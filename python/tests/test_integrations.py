"""Callbacks of training libraries, with what they use of the libraries."""

import contextlib
import subprocess
import unittest
from typing import Any, Dict, List

from .harness import Case
from .test_trial import lines

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

#: What the callback uses of Keras.
KERAS = """\
class callbacks:
    class Callback:
        pass
"""

#: What the logger uses of Lightning, by file.
LIGHTNING = {
    "__init__": "",
    "pytorch/__init__": "",
    "pytorch/callbacks": "class Callback:\n    pass\n",
    "pytorch/loggers/__init__": "",
    "pytorch/loggers/logger": "class Logger:\n    pass\nrank_zero_experiment = lambda f: f\n",
    "pytorch/utilities": "rank_zero_only = lambda f: f\n",
}


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


class InTrials(Case):
    def environment(self, **variables: str) -> Dict[str, str]:
        return super().environment(**{"HPSEARCH_TRIAL": "7", **variables})

    def answered(self, program: str, verdict: str, **variables: str) -> List[Any]:
        """What a trial says that is answered with `verdict` once it has printed `waits`."""
        process = self.start(program, stdin=subprocess.PIPE, **variables)
        assert process.stdin is not None and process.stdout is not None
        said = []
        while not said or said[-1] not in ("waits\n", ""):
            said.append(process.stdout.readline())
        # One that prints `waits` last may have ended before it is answered.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write('{"verdict":"%s","reason":"rung 2"}\n' % verdict)
            process.stdin.flush()
        said.append(process.stdout.read())
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        return lines("".join(said))

    def test_keras_reports_no_part_of_an_epoch_and_pauses_at_its_end(self) -> None:
        (self.path / "keras.py").write_text(KERAS)
        for verdict, at, last, batches in (("stop", 1, 1, 2), ("stop", 3, 2, 4), ("pause", 1, 2, 4)):
            said = self.answered(
                f"""
                import sys, time
                sys.path.insert(0, "")
                from types import SimpleNamespace
                import hpsearch
                from hpsearch.integrations import KerasCallback
                run = hpsearch.init()
                callback = KerasCallback()
                callback.params, callback.model = {{"steps": 4}}, SimpleNamespace(stop_training=False)
                callback.on_train_begin()
                for epoch in range(2):
                    for batch in range(4):
                        if (epoch, batch) == (1, {at}):
                            print("waits", flush=True)
                            while not run.should_stop:
                                time.sleep(0.01)
                        callback.on_train_batch_end(batch)
                        if callback.model.stop_training:
                            break
                    callback.on_epoch_end(epoch, {{"loss": 1.0}})
                run.summary({{"batches": batch + 1, "stops": callback.model.stop_training}})
                """,
                verdict,
            )
            reports = [{"loss": 1.0, "step": epoch} for epoch in range(1, last + 1)]
            ended = {"summary": {"batches": batches, "stops": True}}
            self.assertEqual(said, [*reports, ended], (verdict, at))

    def lightning(self, program: str, **variables: str) -> List[Any]:
        for name, text in LIGHTNING.items():
            file = self.path / "lightning" / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        begin = """
            import sys, time
            sys.path.insert(0, "")
            from types import SimpleNamespace
            import hpsearch
            from hpsearch.integrations import HpsearchLogger
            run = hpsearch.init()
            logger = HpsearchLogger()
            callback = logger.stop_callback()
            trainer = SimpleNamespace(
                world_size=1, should_stop=False, is_global_zero=True, is_last_batch=True,
                optimizers=[None],
                strategy=SimpleNamespace(reduce_boolean_decision=lambda stops, all: stops),
            )
            callback.setup(trainer, None, "fit")

            def save(step):
                path = f"step={step}.ckpt"
                open(path, "w").close()
                logger.after_save_checkpoint(
                    SimpleNamespace(_last_checkpoint_saved=path, _last_global_step_saved=step)
                )
            """
        return self.answered(begin + program, "pause", **variables)

    def test_lightning_pauses_at_a_report_whose_step_is_that_of_its_checkpoint(self) -> None:
        said = self.lightning(
            """
            save(4)
            print("waits", flush=True)
            logger.log_metrics({"loss": 1.0}, step=3)
            run.summary({"stops": trainer.should_stop})
            """,
            HPSEARCH_UNTIL="4",
        )
        saved = {"checkpoint": str(self.path / "step=4.ckpt"), "step": 4}
        self.assertEqual(
            said, [saved, {"loss": 1.0, "step": 4}, {"summary": {"stops": True}}]
        )

    def test_lightning_logs_the_steps_that_were_taken_where_it_counts_one_fewer(self) -> None:
        said = self.lightning(
            """
            for taken, logged in ((18, 18), (19, 18)):
                trainer.global_step = taken
                loop = SimpleNamespace(_batches_that_stepped=logged)
                trainer.fit_loop = SimpleNamespace(epoch_loop=loop)
                callback.on_train_batch_start(trainer, None, None, 0)
                logger.log_metrics({"loss": 1.0}, step=logged)
            callback.setup(trainer, None, "test")
            logger.log_metrics({"test_loss": 1.0}, step=19)
            print("waits", flush=True)
            """
        )
        losses = [{"loss": 1.0, "step": 19}, {"loss": 1.0, "step": 20}]
        self.assertEqual(said, [*losses, {"test_loss": 1.0, "step": 20}])

    def test_lightning_counts_batches_where_optimizers_step_unequally_often(self) -> None:
        said = self.lightning(
            """
            trainer.optimizers = [None, None]
            for batch, accumulates in enumerate((False, False, True)):
                # One of them steps three times a batch, the other once.
                trainer.global_step = 4 * batch
                loop = SimpleNamespace(
                    _batches_that_stepped=batch, _should_accumulate=lambda: accumulates
                )
                trainer.fit_loop = SimpleNamespace(epoch_loop=loop)
                callback.on_train_batch_start(trainer, None, None, batch)
                callback.on_train_batch_end(trainer, None, None, None, batch)
                save(4 * batch + 4)
            print("waits", flush=True)
            """
        )
        self.assertEqual([record["step"] for record in said], [1, 2, 2])

    def test_lightning_takes_no_part_of_an_epoch_for_an_epoch(self) -> None:
        said = self.lightning(
            """
            logger.log_metrics({"loss": 1.0}, step=3)
            callback.on_train_epoch_end(trainer, None)
            trainer.is_last_batch = False
            print("waits", flush=True)
            while not run.should_stop:
                time.sleep(0.01)
            callback.on_train_batch_end(trainer, None, None, None, 0)
            logger.log_metrics({"eval_loss": 1.0}, step=4)
            callback.on_train_epoch_end(trainer, None)
            save(5)
            logger.log_metrics({"loss": 0.1}, step=4)
            run.summary({"stops": trainer.should_stop})
            callback.on_fit_end(trainer, None)
            callback.setup(trainer, None, "test")
            logger.log_metrics({"test_loss": 1.0}, step=5)
            callback.setup(trainer, None, "fit")
            logger.log_metrics({"loss": 0.5}, step=5)
            """
        )
        self.assertEqual(
            said,
            [
                {"loss": 1.0, "step": 4},
                {"eval_loss": 1.0, "step": 5},
                {"summary": {"stops": True}},
                {"test_loss": 1.0, "step": 5},
                {"loss": 0.5, "step": 6},
            ],
        )


if __name__ == "__main__":
    unittest.main()
