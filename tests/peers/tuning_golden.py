"""Makes src/trainer/tests/golden/tuning.json: ways of fine-tuning, as torch, peft and scikit-learn compute them.

    python3 -m venv .venv && .venv/bin/pip install torch==2.15.0 transformers==5.23.0 peft==0.21.2 scikit-learn==1.9.1 safetensors
    .venv/bin/python tests/peers/tuning_golden.py src/trainer/tests/golden

Of the tiny checkpoints that models_golden.py made: the losses of fine-tuning with frozen parameters, with a learning rate that
falls from layer to layer (parameter groups of torch.optim.AdamW), with class weights (torch.nn.CrossEntropyLoss) and with
LoRA (peft: its logits, gradients, losses, and the logits of the model that it merges).
"""
import json
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from sklearn.utils.class_weight import compute_class_weight
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, Trainer

torch.set_num_threads(1)
STEPS, RATE, DECAY, SHOWN = 12, 5e-3, 0.1, 120
TARGET = Path(sys.argv[1])
BATCHES = [[0, 1, 2, 3], [1, 3], [2, 0, 1]]
WINDOW_BATCHES = [[0, 1, 2], [1], [2, 0]]
# Windows over one stream as the trainer lays them: each begins with the token that the one before had to tell last.
STREAM = [1, 5, 7, 9, 3, 12, 30, 8, 4, 39, 2, 2, 17, 0, 25, 6, 33, 1, 9, 10, 11, 14]
WINDOWS = [STREAM[start:start + 8] for start in (0, 7, 14)]


def classifier():
    model = AutoModelForSequenceClassification.from_pretrained(TARGET / "bert")
    about = json.loads((TARGET / "bert/golden.json").read_text())
    length = max(map(len, about["texts"]))
    ids = torch.tensor([text + [0] * (length - len(text)) for text in about["texts"]])
    mask = torch.tensor([[1] * len(text) + [0] * (length - len(text)) for text in about["texts"]])
    return model, {"input_ids": ids, "attention_mask": mask}, torch.tensor(about["labels"])


def decoder(name):
    model = AutoModelForCausalLM.from_pretrained(TARGET / name)
    ids = torch.tensor(WINDOWS)
    return model, {"input_ids": ids}, ids


def short(numbers):
    """Seven digits, and of long lists the beginning."""
    return [float(f"{number:.7g}") for number in numbers.flatten().tolist()[:SHOWN]]


def fit(model, batch, labels, groups, shown, loss_of=None):
    """Losses of fine-tuning as Trainer makes the steps, at one learning rate."""
    model.train()
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    losses = []
    for step in range(STEPS):
        chosen = shown[step % len(shown)]
        inputs = {key: value[chosen] for key, value in batch.items()}
        optimizer.zero_grad()
        output = model(**inputs, labels=labels[chosen])
        loss = output.loss if loss_of is None else loss_of(output.logits, labels[chosen])
        losses.append(loss.item())
        loss.backward()
        torch.nn.utils.clip_grad_norm_([parameter for parameter in model.parameters() if parameter.requires_grad], 1.0)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        logits = short(model(**batch).logits)
    return {"losses": losses, "logits": logits}


def groups_of(model, rate=lambda name: RATE):
    """A group for each parameter that is trained: Trainer's rule of which decay, and a learning rate of its own."""
    decayed = Trainer.get_decay_parameter_names(None, model)
    return [{"params": [parameter], "lr": rate(name), "weight_decay": DECAY if name in decayed else 0.0}
            for name, parameter in model.named_parameters() if parameter.requires_grad]


def frozen():
    model, batch, labels = classifier()
    for name, parameter in model.named_parameters():
        if name.startswith(("bert.embeddings.", "bert.encoder.layer.0.")):
            parameter.requires_grad = False
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return {"trained": trained, **fit(model, batch, labels, groups_of(model), BATCHES)}


def layerwise():
    """As BEiT's and timm's layer decay: 1 for what follows the layers, and a factor less for each layer below."""
    model, batch, labels = classifier()
    factor, layers = 0.7, model.config.num_hidden_layers

    def rate(name):
        if name.startswith("bert.embeddings."):
            return RATE * factor ** (layers + 1)
        if name.startswith("bert.encoder.layer."):
            return RATE * factor ** (layers - int(name.split(".")[3]))
        return RATE

    return {"factor": factor, **fit(model, batch, labels, groups_of(model, rate), BATCHES)}


def weighted():
    weights = torch.tensor([0.5, 2.0, 1.25])
    balanced = compute_class_weight("balanced", classes=torch.arange(3).numpy(), y=[0, 2, 1, 1, 2, 2, 2])
    torch.manual_seed(3)
    logits = torch.randn(5, 3).mul(2).requires_grad_()
    told = torch.tensor([0, 2, 1, 1, 2])
    losses = {}
    for smoothing in [0.0, 0.1]:
        loss = torch.nn.CrossEntropyLoss(weight=weights, label_smoothing=smoothing)(logits, told)
        logits.grad = None
        loss.backward()
        losses[str(smoothing)] = {"loss": loss.item(), "gradient": logits.grad.flatten().tolist()}
    model, batch, labels = classifier()
    fitted = fit(model, batch, labels, groups_of(model), BATCHES, torch.nn.CrossEntropyLoss(weight=weights, label_smoothing=0.1))
    return {"weights": weights.tolist(), "balanced": {"labels": [0, 2, 1, 1, 2, 2, 2], "weights": balanced.tolist()},
            "logits": logits.flatten().tolist(), "labels": told.tolist(), "losses": losses, "training": fitted}


def lora(model, batch, labels, shown, targets, saved):
    config = LoraConfig(r=2, lora_alpha=6, lora_dropout=0.0, target_modules=targets, modules_to_save=saved)
    tuned = get_peft_model(model, config)
    torch.manual_seed(11)
    adapters = {}

    def plain(name):
        return name.removeprefix("base_model.model.").replace(".default", "").replace(".modules_to_save", "").replace(".base_layer", "")

    with torch.no_grad():
        for name, parameter in tuned.named_parameters():
            if "lora_" in name:
                parameter.copy_((torch.randn_like(parameter) * 0.2).mul(1e4).round().div(1e4))
                adapters[plain(name)] = [round(number, 4) for number in parameter.flatten().tolist()]
    tuned.eval()
    output = tuned(**batch, labels=labels)
    output.loss.backward()
    gradients = {plain(name): parameter.grad.norm().item() for name, parameter in tuned.named_parameters() if parameter.grad is not None}
    result = {"r": 2, "alpha": 6, "targets": targets, "adapters": adapters, "logits": short(output.logits),
              "loss": output.loss.item(), "gradients": gradients,
              "trained": sum(parameter.numel() for parameter in tuned.parameters() if parameter.requires_grad)}
    result["training"] = fit(tuned, batch, labels, groups_of(tuned), shown)
    merged = tuned.merge_and_unload().eval()
    with torch.no_grad():
        result["merged_logits"] = short(merged(**batch).logits)
    return result


def main():
    contents = {
        "learning_rate": RATE, "weight_decay": DECAY, "batches": BATCHES, "window_batches": WINDOW_BATCHES, "stream": STREAM,
        "frozen": frozen(), "layerwise": layerwise(), "weighted": weighted(),
        "lora": {
            "bert": lora(*classifier(), BATCHES, ["query", "value"], ["pooler", "classifier"]),
            "bert-all": lora(*classifier(), BATCHES, ["query", "key", "value", "dense"], ["pooler", "classifier"]),
            "gpt2": lora(*decoder("gpt2"), WINDOW_BATCHES, ["c_attn"], None),
            "gpt2-all": lora(*decoder("gpt2"), WINDOW_BATCHES, ["c_attn", "c_proj", "c_fc"], None),
            "llama": lora(*decoder("llama"), WINDOW_BATCHES, "all-linear", None),
        },
    }
    file = TARGET / "tuning.json"
    file.write_text(json.dumps(contents) + "\n")
    print(f"{file.stat().st_size} {file}")


if __name__ == "__main__":
    main()
