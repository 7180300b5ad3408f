"""A service of an ONNX file that `shortcut-guardrail export --format onnx` wrote.

POST {"texts": ["..."]} to /predict; docs/howto/serve.md says how to start it.
"""

import os
from typing import Annotated

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from onnxruntime import InferenceSession
from pydantic import BaseModel, Field
from transformers import AutoConfig, AutoTokenizer

folder = os.environ["FOLDER"]
config, tokenizer = AutoConfig.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
session = InferenceSession(f"{folder}/model.onnx")
app = FastAPI()


class Texts(BaseModel, extra="forbid", strict=True):
    """What may be asked. Whatever else comes is refused before the model sees it."""

    texts: Annotated[list[Annotated[str, Field(min_length=1, max_length=20_000)]], Field(min_length=1, max_length=64)]


@app.post("/predict")
def predict(asked: Texts) -> list[dict[str, float]]:
    """The probability of each label, for each text."""
    encoded = tokenizer(asked.texts, padding=True, truncation=True, return_tensors="np")
    logits = session.run(["logits"], {put.name: encoded[put.name] for put in session.get_inputs()})[0]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    several = config.problem_type == "multi_label_classification"
    probabilities = 1 / (1 + np.exp(-logits)) if several else powers / powers.sum(axis=1, keepdims=True)
    return [{config.id2label[i]: float(p) for i, p in enumerate(row)} for row in probabilities]


@app.exception_handler(RequestValidationError)
def refuse(_: Request, error: RequestValidationError) -> JSONResponse:
    """Say what is wrong without repeating the request, parts of which no JSON can hold."""
    return JSONResponse({"detail": sorted({one["msg"] for one in error.errors()})}, status_code=422)


predict(Texts(texts=["start"]))  # sets the tokenizer up before threads share it
